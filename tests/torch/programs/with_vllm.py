# SPDX-License-Identifier: Apache-2.0
"""vLLM on two CPU ranks (tensor parallel) with a tiny model of random weights: prints the tokens
that it generates. --compile: the model is compiled as one graph."""

import json
import sys
import tempfile

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 256, "max_position_embeddings": 256,
    "rms_norm_eps": 1e-5, "hidden_act": "silu", "tie_word_embeddings": False,
    "torch_dtype": "bfloat16", "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip


def main():
    from vllm import LLM, SamplingParams
    from vllm.inputs import TokensPrompt

    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/config.json", "w", encoding="utf-8") as file:
            json.dump(LLAMA, file)
        engine = LLM(
            model=folder, load_format="dummy", skip_tokenizer_init=True, max_model_len=128,
            tensor_parallel_size=2, enforce_eager="--compile" not in sys.argv,
            gpu_memory_utilization=0.05, max_num_seqs=4, seed=1,
        )  # fmt: skip
    parameters = SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, detokenize=False)
    prompt = TokensPrompt(prompt_token_ids=[3, 4, 5, 6, 7])
    (result,) = engine.generate([prompt], parameters, use_tqdm=False)
    print(f"tokens {list(result.outputs[0].token_ids)}", flush=True)


if __name__ == "__main__":  # vLLM's processes import this file
    main()
