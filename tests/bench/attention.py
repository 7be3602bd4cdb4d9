"""dot_product_attention and its gradient beside PyTorch's scaled_dot_product_attention, f32, on one thread and on all cores.

    attention.py --speed build/tests/ops/speed
"""
import argparse
import re
import statistics

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
    parser.add_argument("--rounds", type=int, default=3, help="in each of which both sides take their turn (default 3)")
    args = parser.parse_args()
    for threads in sorted({1, cores()}):
        own, peer = [], []
        for _ in range(args.rounds):
            own.append(ours(args.speed, threads))
            try:
                peer.append(run_peer("torch_attention.py", threads, *SHAPES)[0])
            except Failed as reason:
                print(f"no PyTorch: {reason}")
        print(f"{threads} thread{'s' if threads > 1 else ''}: heads x places x width, causal; ms; PyTorch, ms; ratio: medians of {args.rounds} rounds; the ratio of each")
        for case in own[0]:
            milliseconds = [1e3 * each[case] for each in own]
            others = [1e3 * each[case] for each in peer if case in each]
            ratios = [a / b for a, b in zip(milliseconds, others)]
            beside = f" {statistics.median(others):9.3f} {statistics.median(ratios):6.2f}   " + " ".join(f"{ratio:.2f}" for ratio in ratios) if ratios else ""
            print(f"  {case:26} {statistics.median(milliseconds):9.3f}" + beside)


if __name__ == "__main__":
    main()
