"""Makes tests/golden/: tiny models, PEFT adapters, and what PyTorch computes with them.

    python tools/make_goldens.py            # rewrites tests/golden
    python tools/make_goldens.py --check    # compares what it would make with what is there

Needs tools/requirements.txt; never needed to build, run or test. tests/golden/README.md says what
each file and tensor is. Everything is F32 on one thread and seeded.

Adapter values are chosen so that storing A and c s B as IEEE halves is exact: A in multiples of
2^-8, B of 2^-7, c of 1/16, s a power of two. A difference to these values is not that rounding.
Tensors ending in .kv_half are computed with K (after RoPE) and V rounded to halves, as a half
precision KV cache does, the gradient passing straight through.
"""

import argparse
import dataclasses
import hashlib
import json
import pathlib
import re
import shutil
import sys
import tempfile
import zlib

import gguf
import numpy as np
import peft
import safetensors
import safetensors.torch
import torch
import torch.nn.functional as F
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import eager_mask
from transformers.models.llama.modeling_llama import eager_attention_forward

import tiny_models

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PROMPT_TOKENS = 24
SEQUENCES = [(17, 6), (23, 11)]  # (tokens, of which the first are not supervised)
TRAIN_STEPS = 10
LEARNING_RATE = 1e-3
CLIP_NORM = 0.3


@dataclasses.dataclass(frozen=True)
class Kind:
    """A sort of adapter: what LoraConfig is given beside r=4, alpha=8 and the targets."""

    name: str
    options: dict
    half: bool = False  # saved as halves: a reader must heed each tensor's own type
    trained: bool = False  # gradients and ten steps too


# The patterns: a plain suffix, one layer's own, a regular expression. The first match wins, in the
# order of the saved file (PEFT sorts the keys on saving).
KINDS = {
    kind.name: kind
    for kind in [
        Kind("lora", {}, trained=True),
        Kind("dora", {"use_dora": True}, trained=True),
        Kind("rslora", {"use_rslora": True}, half=True),
        Kind(
            "pattern",
            {
                "use_dora": True,
                "rank_pattern": {r"layers\.0\.self_attn\.q_proj": 8, "q_proj": 2, "down_proj": 8},
                "alpha_pattern": {r"layers\.\d+\.mlp\.down_proj": 32, "q_proj": 16},
            },
        ),
    ]
}
ADAPTERS = {
    "llama": ["lora", "dora", "rslora", "pattern"],
    "qwen2": ["lora", "dora", "pattern"],
    "qwen3": ["lora", "dora"],
}


# ---- K and V as halves


def round_to_half(x):
    return x + (x.half().float() - x).detach()


def kv_half_attention(module, query, key, value, attention_mask, **kwargs):
    key, value = round_to_half(key), round_to_half(value)
    return eager_attention_forward(module, query, key, value, attention_mask, **kwargs)


AttentionInterface.register("kv_half", kv_half_attention)
AttentionMaskInterface.register("kv_half", eager_mask)


def set_attention(model, suffix):
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    base.set_attn_implementation("kv_half" if suffix else "eager")


# ---- Inputs


def random_tokens(seed, name, count):
    rng = np.random.default_rng([seed, zlib.crc32(name.encode())])
    return torch.from_numpy(rng.integers(0, tiny_models.VOCABULARY_SIZE, count))


def batch_of(spec):
    """Sequences as (tokens, supervised): supervised[i] says that token i is to be predicted."""
    batch = []
    for i, (length, unsupervised) in enumerate(SEQUENCES):
        supervised = torch.arange(length) >= unsupervised
        supervised[-3] = False  # a gap, as between two turns
        batch.append((random_tokens(spec.seed, f"batch.{i}", length), supervised))
    return batch


# ---- Adapters


def grid(rng, shape, deviation, step):
    values = np.round(rng.normal(0.0, deviation, shape) / step) * step
    return torch.from_numpy(values.astype(np.float32))


def lora_layers(model):
    """(short name, layer) of each adapted linear layer, in the model's order."""
    for name, module in model.named_modules():
        if hasattr(module, "lora_A") and "default" in module.lora_A:
            layer, inner = re.search(r"layers\.(\d+)\.(?:self_attn|mlp)\.(\w+)$", name).groups()
            yield f"layers.{layer}.{inner}", module


def parameters_of(layer):
    """The trained parameters of a layer by the paper's letters: a [r, in], b [out, r], m [out]."""
    named = {"a": layer.lora_A["default"].weight, "b": layer.lora_B["default"].weight}
    if layer.use_dora["default"]:
        named["m"] = layer.lora_magnitude_vector["default"].weight
    return named


def randomize(layer, rng):
    named = parameters_of(layer)
    a = grid(rng, named["a"].shape, 0.25, 2.0**-8)
    b = grid(rng, named["b"].shape, 0.06, 2.0**-7)
    scale = layer.scaling["default"]
    assert np.log2(scale) == round(np.log2(scale)), scale
    with torch.no_grad():
        named["a"].copy_(a)
        named["b"].copy_(b)
        if "m" in named:
            c = torch.from_numpy(rng.integers(12, 21, b.shape[0]).astype(np.float32) / 16)
            norm = torch.linalg.norm(layer.base_layer.weight + scale * (b @ a), dim=1)
            named["m"].copy_(c * norm)
            assert torch.equal((c[:, None] * scale * b).half().float(), c[:, None] * scale * b)
    assert torch.equal(a.half().float(), a)


def adapt(spec, kind):
    """A fresh base with a random adapter of this kind."""
    config = LoraConfig(
        r=4, lora_alpha=8, target_modules=TARGETS, task_type="CAUSAL_LM", **kind.options
    )
    model = get_peft_model(tiny_models.build(spec), config)
    for name, layer in lora_layers(model):
        stream = zlib.crc32(f"{kind.name}.{name}".encode())
        randomize(layer, np.random.default_rng([spec.seed, stream]))
    return model


def save_adapter(model, kind, folder):
    model.save_pretrained(folder)
    (folder / "README.md").unlink(missing_ok=True)
    config_path = folder / "adapter_config.json"
    config = json.loads(config_path.read_text())
    config["target_modules"].sort()  # a set in PEFT: its order differs from run to run
    config_path.write_text(json.dumps(config, indent=2) + "\n")
    if kind.half:
        path = folder / "adapter_model.safetensors"
        tensors = safetensors.torch.load_file(path)
        halves = {name: value.half() for name, value in tensors.items()}
        safetensors.torch.save_file(halves, path, metadata={"format": "pt"})


# ---- What PyTorch computes


def logits_of(model, tokens):
    return model(input_ids=tokens[None]).logits[0]


def batch_loss(model, batch):
    """Cross entropy summed over the supervised tokens of all sequences, over their number."""
    total, count = 0.0, 0
    for tokens, supervised in batch:
        logits = logits_of(model, tokens)[:-1]
        keep = supervised[1:]
        total = total + F.cross_entropy(logits[keep], tokens[1:][keep], reduction="sum")
        count += int(keep.sum())
    return total / count


def trainable(model):
    for name, layer in lora_layers(model):
        for letter, parameter in parameters_of(layer).items():
            yield f"{name}.{letter}", parameter


def gradient_goldens(model, batch):
    model.zero_grad()
    loss = batch_loss(model, batch)
    loss.backward()
    goldens = {"loss": loss.detach().reshape(1)}
    for name, parameter in trainable(model):
        goldens[f"grad.{name}"] = parameter.grad.clone()
    norm = torch.nn.utils.get_total_norm([p.grad for _, p in trainable(model)])
    return goldens | {"grad_norm": norm.reshape(1)}


def training_goldens(model, batch):
    """Loss before each of the steps, and the adapter of two modules after the last."""
    parameters = [parameter for _, parameter in trainable(model)]
    optimizer = torch.optim.AdamW(
        parameters, lr=LEARNING_RATE, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, foreach=False
    )
    losses = []
    for _ in range(TRAIN_STEPS):
        optimizer.zero_grad()
        loss = batch_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, CLIP_NORM)
        optimizer.step()
        losses.append(loss.detach())
    goldens = {"train.losses": torch.stack(losses)}
    for name, parameter in trainable(model):
        if name.startswith(("layers.0.k_proj.", "layers.1.down_proj.")):
            goldens[f"train.{name}"] = parameter.detach().clone()
    return goldens


def adapter_goldens(spec, kind, prompt, batch):
    goldens = {}
    for suffix in ["", ".kv_half"] if kind.trained else [""]:
        model = adapt(spec, kind)
        set_attention(model, suffix)
        with torch.no_grad():
            made = {"logits": logits_of(model, prompt)}
        if kind.trained:
            made |= gradient_goldens(model, batch)
            made |= training_goldens(model, batch)
        goldens |= {f"{kind.name}.{name}{suffix}": value for name, value in made.items()}
    return goldens


def base_goldens(model, prompt, batch):
    goldens = {}
    with torch.no_grad():
        for suffix in ["", ".kv_half"]:
            set_attention(model, suffix)
            goldens[f"base.logits{suffix}"] = logits_of(model, prompt)
            goldens[f"base.loss{suffix}"] = batch_loss(model, batch).reshape(1)
        set_attention(model, "")
        hidden = model(input_ids=prompt[None], output_hidden_states=True).hidden_states
        for i, value in enumerate(hidden[1:-1]):  # the last has been through the output norm
            goldens[f"base.layer_output.{i}"] = value[0]
    return goldens


def save_goldens(goldens, path):
    typed = {}
    for name, value in goldens.items():
        assert not value.is_floating_point() or bool(value.isfinite().all()), name
        kind = torch.float32 if value.is_floating_point() else torch.int32
        typed[name] = value.to(kind).contiguous()
    safetensors.torch.save_file(typed, path)


def make_model(spec, folder):
    model = tiny_models.build(spec)
    tiny_models.write_gguf(spec, model, folder / f"{spec.name}.gguf")
    prompt = random_tokens(spec.seed, "prompt", PROMPT_TOKENS)
    batch = batch_of(spec)
    goldens = {"prompt.tokens": prompt}
    for i, (tokens, supervised) in enumerate(batch):
        goldens |= {f"batch.{i}.tokens": tokens, f"batch.{i}.supervised": supervised}
    goldens |= base_goldens(model, prompt, batch)
    for kind in (KINDS[name] for name in ADAPTERS.get(spec.name, [])):
        save_adapter(adapt(spec, kind), kind, folder / f"{spec.name}-{kind.name}")
        goldens |= adapter_goldens(spec, kind, prompt, batch)
    save_goldens(goldens, folder / f"{spec.name}.safetensors")


# ---- Files


def manifest(folder):
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    return {
        "command": "python tools/make_goldens.py",
        "versions": {
            "python": sys.version.split()[0],
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            "peft": peft.__version__,
            "safetensors": safetensors.__version__,
            "numpy": np.__version__,
        },
        "training": {
            "optimizer": "AdamW",
            "steps": TRAIN_STEPS,
            "learning_rate": LEARNING_RATE,
            "betas": [0.9, 0.999],
            "epsilon": 1e-8,
            "weight_decay": 0.0,
            "clip_norm": CLIP_NORM,
        },
        "models": [
            dataclasses.asdict(spec)
            | {"vocabulary": tiny_models.VOCABULARY_SIZE, "adapters": ADAPTERS.get(spec.name, [])}
            for spec in tiny_models.MODELS
        ],
        "sha256": {
            str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files
        },
    }


def make_all(folder):
    for spec in tiny_models.MODELS:
        make_model(spec, folder)
    (folder / "manifest.json").write_text(json.dumps(manifest(folder), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        make_all(folder)
        made = json.loads((folder / "manifest.json").read_text())["sha256"]
        if options.check:
            kept = json.loads((GOLDEN / "manifest.json").read_text())["sha256"]
            differing = sorted(n for n in made.keys() | kept.keys() if made.get(n) != kept.get(n))
            sys.exit(f"differ: {', '.join(differing)}" if differing else 0)
        for name in [*made, "manifest.json"]:
            target = GOLDEN / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(folder / name, target)


if __name__ == "__main__":
    main()
