"""Tiny random models for the golden tests, as transformers modules and as GGUF files.

Weights depend on (seed, parameter name) alone, so adding a model or a layer changes nothing else.
Norm weights are not 1 and biases not 0: code that forgets one must fail. Names and conventions of
the GGUF files are those of llama.cpp's convert_hf_to_gguf (conversion/{base,llama,qwen}.py).
"""

import dataclasses
import math
import zlib

import gguf
import numpy as np
import torch
from transformers import AutoConfig, AutoModelForCausalLM

MERGES = [
    ("Ġ", "t"), ("h", "e"), ("Ġt", "he"), ("i", "n"), ("r", "e"), ("Ġ", "a"), ("o", "n"),
    ("e", "r"), ("Ġ", "s"), ("a", "t"), ("n", "d"), ("Ġa", "nd"), ("o", "u"), ("in", "g"),
]
SPECIALS = ["<|im_start|>", "<|im_end|>"]
CHAT_TEMPLATE = (
    "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content']"
    " + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}{% endif %}"
)


@dataclasses.dataclass(frozen=True)
class TinyModel:
    name: str
    architecture: str  # general.architecture and transformers' model_type
    pre_tokenizer: str  # tokenizer.ggml.pre
    seed: int
    hidden: int = 64
    feed_forward: int = 96
    layers: int = 2
    head_dim: int = 16
    heads: int = 4
    kv_heads: int = 2
    tied: bool = True
    rms_epsilon: float = 1e-5
    rope_theta: float = 10000.0
    llama3_rope: bool = False  # llama3 scaling, which GGUF carries as the tensor rope_freqs.weight
    context: int = 128


# In qwen3 and in the models 32 wide, heads * head_dim is twice the hidden width.
MODELS = [
    TinyModel("llama", "llama", "smollm", seed=1, tied=False),
    TinyModel("llama-tied", "llama", "smollm", seed=2, hidden=32, layers=3, rope_theta=100000.0),
    TinyModel("llama-rope-freqs", "llama", "smollm", seed=3, hidden=32, llama3_rope=True),
    TinyModel("qwen2", "qwen2", "qwen2", seed=4, rms_epsilon=1e-6, rope_theta=2000.0),
    TinyModel("qwen3", "qwen3", "qwen2", seed=5, head_dim=32, rms_epsilon=1e-6, rope_theta=500.0),
]


def bytes_to_unicode():
    """GPT-2's printable character of each byte (openai/gpt-2, encoder.py)."""
    keep = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [b for b in range(256) if b not in keep]
    return {b: chr(b) for b in keep} | {b: chr(256 + i) for i, b in enumerate(others)}


def vocabulary():
    """Token texts in id order: the bytes, the merges, the special tokens."""
    table = bytes_to_unicode()
    return [table[b] for b in range(256)] + [a + b for a, b in MERGES] + SPECIALS


VOCABULARY_SIZE = len(vocabulary())


def rope_parameters(spec):
    if not spec.llama3_rope:
        return {"rope_type": "default", "rope_theta": spec.rope_theta}
    # 4 of the 8 frequencies are kept, blended or divided by 8, so that each branch is met.
    return {
        "rope_type": "llama3",
        "rope_theta": spec.rope_theta,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 100,
    }


def build(spec):
    """The transformers model, F32, with its random weights."""
    config = AutoConfig.for_model(
        spec.architecture,
        vocab_size=VOCABULARY_SIZE,
        hidden_size=spec.hidden,
        intermediate_size=spec.feed_forward,
        num_hidden_layers=spec.layers,
        num_attention_heads=spec.heads,
        num_key_value_heads=spec.kv_heads,
        head_dim=spec.head_dim,
        rms_norm_eps=spec.rms_epsilon,
        rope_parameters=rope_parameters(spec),
        tie_word_embeddings=spec.tied,
        max_position_embeddings=spec.context,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=VOCABULARY_SIZE - 1,
    )
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(random_parameter(spec.seed, name, tuple(parameter.shape)))
    return model.eval()


def random_parameter(seed, name, shape):
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    if name.endswith("norm.weight"):
        values = rng.uniform(0.5, 1.5, shape)
    elif name.endswith(".bias"):
        values = rng.normal(0.0, 0.3, shape)
    elif "embed_tokens" in name:
        values = rng.normal(0.0, 0.25, shape)
    else:
        values = rng.normal(0.0, 1.0 / math.sqrt(shape[1]), shape)
    return torch.from_numpy(values.astype(np.float32))


# ---- GGUF

BLOCK_NAMES = {
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
TOP_NAMES = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}


def gguf_name(name):
    """'model.layers.0.mlp.up_proj.weight' -> 'blk.0.ffn_up.weight'."""
    module, kind = name.rsplit(".", 1)
    if module in TOP_NAMES:
        return f"{TOP_NAMES[module]}.{kind}"
    layer, inner = module.removeprefix("model.layers.").split(".", 1)
    return f"blk.{layer}.{BLOCK_NAMES[inner]}.{kind}"


def interleave(rows, heads):
    """Rows of a llama q or k projection in the order that interleaved RoPE pairs them."""
    shape = rows.shape
    return rows.reshape(heads, 2, shape[0] // heads // 2, *shape[1:]).swapaxes(1, 2).reshape(shape)


def gguf_tensors(spec, model):
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if spec.architecture == "llama" and "q_proj" in name:
            values = interleave(values, spec.heads)
        if spec.architecture == "llama" and "k_proj" in name:
            values = interleave(values, spec.kv_heads)
        yield gguf_name(name), np.ascontiguousarray(values)
    if spec.llama3_rope:
        yield "rope_freqs.weight", llama3_frequency_divisors(spec)


def llama3_frequency_divisors(spec):
    """What convert_hf_to_gguf writes: the factor that divides each rotary frequency."""
    p = rope_parameters(spec)
    low, high = p["low_freq_factor"], p["high_freq_factor"]
    original, factor = p["original_max_position_embeddings"], p["factor"]
    divisors = []
    for i in range(0, spec.head_dim, 2):
        wavelength = 2 * math.pi * spec.rope_theta ** (i / spec.head_dim)
        if wavelength < original / high:
            divisors.append(1.0)
        elif wavelength > original / low:
            divisors.append(factor)
        else:
            smooth = (original / wavelength - low) / (high - low)
            divisors.append(1 / ((1 - smooth) / factor + smooth))
    assert any(1 < d < factor for d in divisors), "no blended frequency"
    return np.array(divisors, np.float32)


def write_gguf(spec, model, path):
    writer = gguf.GGUFWriter(path, spec.architecture)
    writer.add_name(f"retort-tiny-{spec.name}")
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_context_length(spec.context)
    writer.add_embedding_length(spec.hidden)
    writer.add_block_count(spec.layers)
    writer.add_feed_forward_length(spec.feed_forward)
    writer.add_head_count(spec.heads)
    writer.add_head_count_kv(spec.kv_heads)
    writer.add_layer_norm_rms_eps(spec.rms_epsilon)
    writer.add_rope_freq_base(spec.rope_theta)
    if spec.architecture == "llama":
        writer.add_vocab_size(VOCABULARY_SIZE)
        writer.add_rope_dimension_count(spec.head_dim)
    if spec.head_dim * spec.heads != spec.hidden:
        writer.add_key_length(spec.head_dim)
        writer.add_value_length(spec.head_dim)
    add_tokenizer(writer, spec)
    for name, values in gguf_tensors(spec, model):
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def add_tokenizer(writer, spec):
    normal, control = gguf.TokenType.NORMAL, gguf.TokenType.CONTROL
    tokens = vocabulary()
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(spec.pre_tokenizer)
    writer.add_token_list(tokens)
    writer.add_token_types([control if token in SPECIALS else normal for token in tokens])
    writer.add_token_merges([f"{a} {b}" for a, b in MERGES])
    writer.add_bos_token_id(tokens.index("<|im_start|>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_pad_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
