# SPDX-License-Identifier: Apache-2.0
"""Asks a server of OpenAI's interface for the tokens that follow some prompts.

  complete.py URL MODEL COUNT PROMPTS      PROMPTS: JSON, a list of lists of tokens

Prints a line `begun` when the first tokens are there, then as JSON the tokens of each prompt and
the seconds from the request on."""

import json
import sys
import time
import urllib.request


def main():
    url, model, count, prompts = sys.argv[1:]
    prompts = json.loads(prompts)
    body = {
        "model": model, "prompt": prompts, "max_tokens": int(count), "temperature": 0,
        "ignore_eos": True, "return_token_ids": True, "stream": True,
    }  # fmt: skip
    request = urllib.request.Request(
        f"{url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    tokens = [[] for _ in prompts]
    begin = time.monotonic()
    with urllib.request.urlopen(request, timeout=1200) as reply:
        for line in reply:
            text = line.decode().strip().removeprefix("data: ")
            if text == "[DONE]" or not text:
                continue
            event = json.loads(text)
            if "choices" not in event:
                sys.exit(f"no tokens: {text}")
            for choice in event["choices"]:
                if not any(tokens) and choice["token_ids"]:
                    print("begun", flush=True)
                tokens[choice["index"]] += choice["token_ids"] or []
    print(json.dumps({"seconds": time.monotonic() - begin, "tokens": tokens}))


if __name__ == "__main__":
    main()
