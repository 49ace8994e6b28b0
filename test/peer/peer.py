#!/usr/bin/python3
"""peer.py - the same training step in eager PyTorch: what Spillway's step times on a CPU are compared with.

The model is written as a PyTorch user writes it, with torch's own operators, in fp32. `--check DIR` proves that it is
the same model: it loads the golden fixture and compares losses, gradients and stepped parameters. Otherwise it times
steps on random tokens and random weights, and prints one JSON line.
"""
import argparse
import json
import math
import resource
import struct
import sys
import time
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn

# Under the field names of Hugging Face's config.json, which --check reads.
PRESETS = {
    "small": dict(vocab_size=8192, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, num_key_value_heads=2,
                  intermediate_size=1024, rope_theta=1e4, rms_norm_eps=1e-6, model_type="llama"),
    "qwen2.5-0.5b": dict(vocab_size=151936, hidden_size=896, num_hidden_layers=24, num_attention_heads=14,
                         num_key_value_heads=2, intermediate_size=4864, rope_theta=1e6, rms_norm_eps=1e-6,
                         model_type="qwen2"),
}


class RMSNorm(nn.Module):
    def __init__(self, d, eps):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(d))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


def rotate(x, cosine, sine):
    """RoPE in the half-split layout: element i turns with element i + head_dim / 2."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def causal_attention(q, k, v):
    """q, k, v (B, heads, T, D). Torch's fused attention where this torch has it, else its textbook form."""
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)
    seq = q.shape[2]
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[3])
    future = torch.ones(seq, seq, dtype=torch.bool).triu(1)
    return torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1) @ v


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kv_heads = c["num_attention_heads"], c["num_key_value_heads"]
        d = c["hidden_size"]
        self.head_dim = d // self.heads
        bias = c["model_type"] == "qwen2"
        self.q_proj = nn.Linear(d, self.heads * self.head_dim, bias=bias)
        self.k_proj = nn.Linear(d, self.kv_heads * self.head_dim, bias=bias)
        self.v_proj = nn.Linear(d, self.kv_heads * self.head_dim, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.head_dim, d, bias=False)

    def forward(self, x, cosine, sine):
        batch, seq, _ = x.shape
        q = self.q_proj(x).view(batch, seq, self.heads, self.head_dim).transpose(1, 2)
        k = self.k_proj(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        v = self.v_proj(x).view(batch, seq, self.kv_heads, self.head_dim).transpose(1, 2)
        q, k = rotate(q, cosine, sine), rotate(k, cosine, sine)
        group = self.heads // self.kv_heads
        k, v = k.repeat_interleave(group, dim=1), v.repeat_interleave(group, dim=1)
        return self.o_proj(causal_attention(q, k, v).transpose(1, 2).reshape(batch, seq, -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        d, ffn = c["hidden_size"], c["intermediate_size"]
        self.gate_proj = nn.Linear(d, ffn, bias=False)
        self.up_proj = nn.Linear(d, ffn, bias=False)
        self.down_proj = nn.Linear(ffn, d, bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.self_attn = Attention(c)
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.mlp = FeedForward(c)

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Transformer(nn.Module):
    """Decoder-only, with a tied head. Parameters carry Hugging Face's names, below `model.`."""

    def __init__(self, c):
        super().__init__()
        self.config = c
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList(Block(c) for _ in range(c["num_hidden_layers"]))
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def loss(self, tokens):
        """Mean cross-entropy of predicting token i + 1 from token i."""
        head_dim = self.config["hidden_size"] // self.config["num_attention_heads"]
        inverse = self.config["rope_theta"] ** (-torch.arange(0, head_dim, 2, dtype=torch.float64) / head_dim)
        angles = torch.outer(torch.arange(tokens.shape[1], dtype=torch.float64), inverse).repeat(1, 2)
        cosine, sine = angles.cos().float(), angles.sin().float()
        x = self.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, cosine, sine)
        logits = F.linear(self.norm(x), self.embed_tokens.weight)
        return F.cross_entropy(logits[:, :-1].reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def optimizer_of(model, lr):
    return torch.optim.AdamW(model.parameters(), lr=lr, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01)


def step(model, optimizer, tokens):
    optimizer.zero_grad(set_to_none=True)
    loss = model.loss(tokens)
    loss.backward()
    optimizer.step()
    return loss.item()


def read_safetensors(path):
    """{name: tensor} of a safetensors file: 8 bytes of length, a JSON header, then the data."""
    data = Path(path).read_bytes()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    types = {"F32": torch.float32, "F64": torch.float64, "I64": torch.int64, "I32": torch.int32}
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            flat = torch.frombuffer(bytearray(data[begin:end]), dtype=types[entry["dtype"]])
            tensors[name] = flat.view(entry["shape"])
    return tensors


def check(folder):
    """Whether this model reproduces the golden numbers: 3 AdamW steps at lr 1e-3 from the fixture's weights."""
    folder = Path(folder)
    model = Transformer(json.loads((folder / "config.json").read_text()))
    weights = read_safetensors(folder / "model.safetensors")
    model.load_state_dict({name.removeprefix("model."): w for name, w in weights.items() if name != "lm_head.weight"})
    golden = read_safetensors(folder / "golden.safetensors")
    bad = []

    def expect(name, got, want, limit):
        error = ((got.detach().double() - want.double()).norm() / want.double().norm()).item()
        if not error <= limit:
            bad.append(f"{name}: relative error {error:.1e}, more than {limit:.0e}")

    optimizer = optimizer_of(model, lr=1e-3)
    losses = []
    for i in range(3):
        losses.append(step(model, optimizer, golden["tokens"]))
        if i == 0:
            for name, p in model.named_parameters():
                expect(f"gradient of {name}", p.grad, golden[f"grad.model.{name}"], 1e-5)
    losses.append(model.loss(golden["tokens"]).item())
    for i, loss in enumerate(losses):
        expect(f"loss {i}", torch.tensor(loss), golden["losses"][i], 1e-6)
    expect("evaluation loss", model.loss(golden["eval_tokens"]), golden["eval_loss"], 1e-6)
    for name, p in model.named_parameters():
        # Adam divides by the gradient's size. The key bias has hardly any (softmax ignores what is common to all keys),
        # so its steps are mostly rounding.
        expect(f"stepped {name}", p, golden[f"after3.model.{name}"], 1e-4 if name.endswith("k_proj.bias") else 1e-5)
    for line in bad:
        print(f"peer: {line}", file=sys.stderr)
    if not bad:
        print(f"peer: same losses, gradients and stepped parameters as {folder}")
    return 1 if bad else 0


def measure(options):
    torch.manual_seed(42)
    model = Transformer(PRESETS[options.model])
    tokens = torch.randint(PRESETS[options.model]["vocab_size"], (1, options.seq))
    optimizer = optimizer_of(model, lr=1e-5)
    times, loss = [], 0.0
    for i in range(options.warmup + options.iters):
        start = time.perf_counter()
        loss = step(model, optimizer, tokens)
        if i >= options.warmup:
            times.append((time.perf_counter() - start) * 1000)
    print(json.dumps({
        "torch": torch.__version__, "threads": torch.get_num_threads(), "model": options.model, "seq": options.seq,
        "parameters": sum(p.numel() for p in model.parameters()), "step_time_ms": times, "loss": loss,
        "peak_rss_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", metavar="DIR", help="prove equivalence against the golden fixture in DIR")
    parser.add_argument("--model", choices=PRESETS, default="small")
    parser.add_argument("--seq", type=int, default=768)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    return check(options.check) if options.check else measure(options)


if __name__ == "__main__":
    sys.exit(main())
