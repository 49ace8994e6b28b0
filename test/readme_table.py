"""Rewrites the table in README.md, between its two markers, from the kept record of `make bench SEQ=768`: no number there is
typed by hand. Called by `make readme`."""
import json
import pathlib
import sys

RECORD = pathlib.Path("results/kept/host_small_768/76_host_memory.json")
BEGIN, END = "<!-- table: make readme -->\n", "<!-- /table -->"

if not RECORD.exists():
    sys.exit(f"{RECORD} does not exist: make bench SEQ=768 RUN=... and copy its record there")
record = json.loads(RECORD.read_text())
config = record["config"]
baseline = next(c for c in record["candidates"] if c["name"] == "baseline")

rows = ["| strategy | step ms | samples/s | peak MiB | activations MiB | throughput | moved MiB | loss | eval loss |",
        "|---|---|---|---|---|---|---|---|---|"]
for c in record["candidates"]:
    moved = c["cost"]["offload_bytes"]
    rows.append("| {} | {:.0f}{} | {:.2f} | {:.1f} | {:.1f} | {:.2f} | {} | {:.6f} | {:.6f} |".format(
        c["name"], c["step_time_ms"], " (noisy)" if c["noisy"] else "", c["samples_per_s"], c["peak_memory_mb"],
        c["peak_activation_mb"], c["samples_per_s"] / baseline["samples_per_s"],
        "–" if moved is None else f"{2 * moved / 1048576:.0f}", c["loss"], c["eval_loss"]))
decision = record["decision"]
caption = (f"`make bench SEQ={config['seq_len']}` (here as a part of `make chain`) without a GPU ({config['processor']}), model `{config['model_id']}`, batch "
           f"{config['batch_size']}, float32, AdamW. Losses bit-identical: {'yes' if record['losses_identical'] else 'no'}. "
           f"Decision: {decision['decision']} ({decision['reason']}). Records of the whole chain: [{RECORD.parent}]({RECORD.parent}).")

readme = pathlib.Path("README.md")
text = readme.read_text()
begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
readme.write_text(text[:begin] + "\n".join(rows) + "\n\n" + caption + "\n" + text[end:])
