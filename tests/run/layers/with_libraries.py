#!/usr/bin/env python3
"""Makes libraries.json with torchvision and transformers: names and shapes of what their models save, of the samples that stand for them.

    python3 tests/run/layers/with_libraries.py            # writes it
    python3 tests/run/layers/with_libraries.py --check    # fails where they now say otherwise"""
import json
import os
import sys

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libraries.json")


def models():
    """sample: a model without memory for its numbers."""
    import torch
    import torchvision.models as vision
    from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    tiny = dict(vocab_size=64, hidden_size=32, num_attention_heads=8, num_key_value_heads=4, intermediate_size=48, num_hidden_layers=2)
    large = dict(vocab_size=128256, hidden_size=4096, num_attention_heads=32, num_key_value_heads=8, intermediate_size=14336, num_hidden_layers=32)
    with torch.device("meta"):
        return {"resnet18": vision.resnet18(), "resnet50": vision.resnet50(), "gpt2": GPT2LMHeadModel(GPT2Config()),
                "llama_tiny": LlamaForCausalLM(LlamaConfig(**tiny)), "llama": LlamaForCausalLM(LlamaConfig(**large)),
                "bert_tiny": BertForSequenceClassification(BertConfig(hidden_size=128, num_hidden_layers=2, num_attention_heads=2, intermediate_size=512)),
                "bert_base": BertForSequenceClassification(BertConfig(vocab_size=21128))}


def main():
    made = {name: {key: list(value.shape) for key, value in model.state_dict().items()} for name, model in models().items()}
    if "--check" in sys.argv:
        with open(TABLE, encoding="utf-8") as file:
            kept = json.load(file)
        for name in made:
            if made[name] != kept[name]:
                sys.exit("%s: %s" % (name, sorted(set(map(str, made[name].items())) ^ set(map(str, kept[name].items())))))
        return
    with open(TABLE, "w", encoding="utf-8") as file:
        file.write("{\n%s\n}\n" % ",\n".join("%s: %s" % (json.dumps(name), json.dumps(of, separators=(",", ":"))) for name, of in made.items()))


if __name__ == "__main__":
    main()
