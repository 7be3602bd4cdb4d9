"""dot_product_attention and its gradient beside PyTorch's scaled_dot_product_attention, f32, on one thread and on all cores.

    attention.py --speed build/tests/ops/speed
"""
import argparse
import re

from bench import Failed, cores, run, run_peer

SHAPES = "8x128x32", "8x512x64", "2x4096x64"


def ours(speed, threads):
    """(shape, causal, forward or gradient) -> seconds. The program goes through shapes in order, without causal, then with it."""
    out, _ = run([speed, str(threads), "dot_product_attention", "attention_grad"])
    seconds, seen = {}, {}
    for name, shape, us in re.findall(r"(?m)^(dot_product_attention|attention_grad) +([0-9x]+),.*? ([0-9.]+) us", out):
        what = "gradient" if name == "attention_grad" else "forward"
        causal = seen[shape, what] = seen.get((shape, what), -1) + 1
        seconds[f"{shape} {causal} {what}"] = float(us) / 1e6
    return seconds


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--speed", required=True)
    args = parser.parse_args()
    for threads in sorted({1, cores()}):
        own = ours(args.speed, threads)
        try:
            peer = run_peer("torch_attention.py", threads, *SHAPES)[0]
        except Failed as reason:
            peer = {}
            print(f"no PyTorch: {reason}")
        print(f"{threads} thread{'s' if threads > 1 else ''}: heads x places x width, causal; ms; PyTorch, ms; ratio")
        for case, seconds in own.items():
            other = peer.get(case)
            print(f"  {case:26} {seconds * 1e3:9.3f}" + (f" {other * 1e3:9.3f} {seconds / other:6.2f}" if other else ""))


if __name__ == "__main__":
    main()
