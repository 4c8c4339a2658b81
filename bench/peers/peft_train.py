"""Training peer: PEFT LoRA or DoRA on a GGUF base, dequantised by transformers.

    python bench/peers/peft_train.py --base FILE.gguf --records FILE.jsonl --method dora --batch 4

For development machines (tools/requirements.txt). FILE.jsonl holds one {"tokens": [id, ...],
"supervised": [0 or 1, ...]} a line, the records as our trainer packs them: supervised[i] says that
token i is to be learned. Batches are padded on the right; the loss is the mean over the supervised
tokens of the whole batch. Records are taken in the order of the file, from the start again at its
end.

Prints one JSON object. Rates are over all steps after the warm-up steps (time of the optimiser
included, loading not); tokens are those of the records, padding not counted.
"""

import argparse
import json
import pathlib
import resource
import statistics
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GgufConfig

TARGETS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
IGNORED = -100  # transformers' label of a token without a loss


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--base", type=pathlib.Path, required=True, help="GGUF file")
    parser.add_argument("--records", type=pathlib.Path, required=True, help="JSONL of token ids")
    parser.add_argument("--method", choices=["lora", "dora"], default="dora")
    parser.add_argument("--dtype", choices=DTYPES, default="f32", help="of the base")
    parser.add_argument("--batch", type=int, default=4, help="records a step")
    parser.add_argument("--steps", type=int, default=8, help="steps measured")
    parser.add_argument("--warmup", type=int, default=1, help="steps before, not measured")
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--alpha", type=float, default=32.0)
    parser.add_argument("--learning-rate", type=float, default=2e-3, help="constant")
    parser.add_argument("--clip", type=float, default=0.3, help="global norm")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def read_records(path):
    records = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        record = json.loads(line)
        if len(record["tokens"]) != len(record["supervised"]) or not any(record["supervised"][1:]):
            raise SystemExit(f"{path}:{number}: nothing supervised, or lengths differ")
        records.append(record)
    if not records:
        raise SystemExit(f"{path}: no records")
    return records


def padded(records):
    """input_ids, attention_mask and labels, all [batch, longest]."""
    longest = max(len(r["tokens"]) for r in records)
    ids = torch.zeros(len(records), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    labels = torch.full_like(ids, IGNORED)
    for i, record in enumerate(records):
        tokens = torch.tensor(record["tokens"])
        supervised = torch.tensor(record["supervised"], dtype=torch.bool)
        ids[i, : len(tokens)] = tokens
        mask[i, : len(tokens)] = 1
        labels[i, : len(tokens)] = torch.where(supervised, tokens, IGNORED)
    labels[:, 0] = IGNORED  # nothing predicts the first token
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def load(options):
    """transformers takes configuration and weights from the GGUF file; it needs no other."""
    base = AutoModelForCausalLM.from_pretrained(
        options.base.parent,
        gguf_file=options.base.name,
        dtype=DTYPES[options.dtype],
        quantization_config=GgufConfig(dequantize=True),
    )
    base.config.use_cache = False
    config = LoraConfig(
        r=options.rank,
        lora_alpha=options.alpha,
        use_dora=options.method == "dora",
        target_modules=TARGETS,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(base, config).train()


def train_step(model, parameters, optimizer, batch, clip):
    """Seconds and loss of one step."""
    begin = time.perf_counter()
    loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(parameters, clip)
    optimizer.step()
    optimizer.zero_grad()
    return time.perf_counter() - begin, loss.item()


def main():
    options = parse_arguments()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    records = read_records(options.records)
    model = load(options)
    parameters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=options.learning_rate, weight_decay=0.0)

    seconds, losses, total, supervised, computed = [], [], 0, 0, 0
    for step in range(options.warmup + options.steps):
        first = step * options.batch
        batch = padded([records[(first + i) % len(records)] for i in range(options.batch)])
        elapsed, loss = train_step(model, parameters, optimizer, batch, options.clip)
        losses.append(loss)
        if step >= options.warmup:
            seconds.append(elapsed)
            total += int(batch["attention_mask"].sum())
            supervised += int((batch["labels"] != IGNORED).sum())
            computed += batch["input_ids"].numel()

    rows = {
        "supervised_tokens_per_s": supervised / sum(seconds),
        "total_tokens_per_s": total / sum(seconds),
        "peak_rss_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "final_loss": losses[-1],
        "first_loss": losses[0],
        "median_step_s": statistics.median(seconds),
        "padding_share": 1 - total / computed,
        "steps": options.steps,
        "batch": options.batch,
        "method": options.method,
        "dtype": options.dtype,
        "threads": options.threads,
    }
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
