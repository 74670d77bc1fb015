#!/usr/bin/env python3
"""Goldens of the tokenizers from the tokenizers library and transformers, and the check of a folder we wrote.

The goldens are tests/data/golden/tokenizer and tokenizer_bpe.

    python3 scripts/golden/tokenizer.py              # writes the goldens
    python3 scripts/golden/tokenizer.py --check DIR  # DIR as Tokenizer::save writes it: same ids as the goldens
"""

import base64
import io
import itertools
import json
import random
import sys
import tempfile
from pathlib import Path

import sentencepiece
import tokenizers
import transformers
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

OUT = Path(__file__).resolve().parents[2] / "tests" / "data" / "golden" / "tokenizer"
SEED = 7

TEXTS = [
    "", " ", "a", "  two  spaces ", "3 7 12 = 36\n", "(7-3)*12", "tab\tand\r\nline", "don't I'll 'S",
    "<answer>", "</answer>", "<answer>3+4</answer>", "x<answer", "<answer><answer></answer>", "</answer><answer>",
    "<<answer>>", "<|endoftext|>", "a<|endoftext|>b", "<|endoftext|", "<|im_start|>", "\\boxed{2}",
    "naïve café", "e\u0301 é", "Ġ Ċ ĉ", "ÿþ", "日本語", "Привет", "שלום", "नमस्ते", "🙂", "👩‍👩‍👧", "🇩🇪", "a\u0000b", "\u0000",
    "\u007f\u0080\u009f\u00a0\u00ad", "\u2028\u2029", "\ufeffbom", "\ufffd", "\U0010ffff", "\ue000", "𝟛+𝟜", "３＋４", "×÷−",
    "".join(chr(i) for i in range(128)), "".join(chr(i) for i in range(128, 400)), "1" * 300,
]


def random_texts(rng):
    pieces = ["<answer>", "</answer>", "<|endoftext|>", "<", ">", "/", "answer", " ", "\n", "é", "日", "🙂", "7", "+"]
    for _ in range(60):
        yield "".join(rng.choice(pieces) for _ in range(rng.randrange(1, 20)))


def byte_spellings():
    """The library's byte alphabet in the order of the bytes: those spelled as themselves, the others in order."""
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    shifted = iter(sorted(char for char in alphabet if ord(char) > 255))
    return [chr(byte) if chr(byte) in alphabet else next(shifted) for byte in range(256)]


def build():
    """The quickstart's tokenizer, made by the library itself."""
    spelling = byte_spellings()
    tokenizer = Tokenizer(models.BPE(vocab={spelling[b]: b for b in range(256)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=False, trim_offsets=False, use_regex=False)
    return tokenizer


def make():
    OUT.mkdir(parents=True, exist_ok=True)
    plain = build()  # without added tokens: how user text must be read
    full = build()
    full.add_tokens([AddedToken("<|endoftext|>", special=True, normalized=False),
                     AddedToken("<answer>", special=False, normalized=False),
                     AddedToken("</answer>", special=False, normalized=False)])
    wrapped = PreTrainedTokenizerFast(tokenizer_object=full, eos_token="<|endoftext|>", pad_token="<|endoftext|>",
                                      clean_up_tokenization_spaces=False)
    wrapped.save_pretrained(OUT)
    rows = []
    for text in TEXTS + list(random_texts(random.Random(SEED))):
        trusted = wrapped(text, add_special_tokens=False)["input_ids"]
        rows.append({"text": text, "plain": plain.encode(text).ids, "trusted": trusted,
                     "decoded": wrapped.decode(trusted, skip_special_tokens=True)})
    (OUT / "cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    manifest = {"command": "python3 scripts/golden/tokenizer.py", "seed": SEED, "tokenizers": tokenizers.__version__,
                "transformers": transformers.__version__,
                "files": {"tokenizer.json, tokenizer_config.json": "as transformers saves the quickstart's tokenizer",
                          "cases.jsonl": "ids of user text (plain) and of our own text (trusted), and its decoding"}}
    (OUT / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n")


CORPUS = ["the cat sat on the mat, and the other cats' hats were there: it's 123,456 or 3.14!", "  indented\n\n\tcode(x) += 10;\r\n",
          "naïve café über façade ÀÉÎ", "日本語の文章です。 日本 日本語", "Привет, мир! привет", "if (a < b) { return a + b; }   # why", "$x^2 + \\frac{1}{2}$ \\boxed{42}"] * 3
QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN2.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
PIECES = ["<|end|>", "<l>", "<r>", "<lr>", "wrd", "zé", "ze\u0301", "<a", "<a>", "<a>>", " ", "  ", "    ", "\t", "\n", "\r\n", "\n\n",
          "'s", "'LL", "'ſ", "１", "²", "½", "日本", "the", " the", "The", "THE", "\u180e", "\u200b", "\u00a0", "\u3000", "\u0085", "🙂",
          "👩‍👩‍👧", "각", "\u1100\u1161", "\u0301\u0323", "ǅ", "ﬁ", "\u2126", "\U00031350", "\U0001e4d0", "123456", "3.14", "cat", "_a", "x", "ab"]


def families():
    """Small tokenizers of each supported kind, trained here: name, the tokenizer, its own way of adding tokens."""
    def split(pattern):
        return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"),
                                        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    added = [AddedToken("<|end|>", special=True, normalized=False), AddedToken("<l>", lstrip=True, normalized=False),
             AddedToken("<r>", rstrip=True, normalized=False), AddedToken("<lr>", lstrip=True, rstrip=True, normalized=False),
             AddedToken("wrd", single_word=True, normalized=False), AddedToken("zé", normalized=True),
             AddedToken("<a", normalized=False), AddedToken("<a>", normalized=False), AddedToken("<a>>", normalized=False),
             AddedToken("    ", normalized=True)]
    kinds = {"qwen2": (normalizers.NFC(), split(QWEN2), False, added[:1]), "llama3": (None, split(LLAMA3), True, added[:1]),
             "gpt2": (None, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True), False, added[:1]),
             "digits": (None, pre_tokenizers.Sequence([pre_tokenizers.Digits(True), pre_tokenizers.ByteLevel(add_prefix_space=False)]), False, added[:1]),
             "gaps": (None, split(r"\p{L}+?|\s*|[0-9]{2}|a(?=b)|(?<=x)y"), False, added[:1]),  # empty matches, text between
             "added": (normalizers.NFC(), split(QWEN2), False, added)}
    # Vocabularies of the bytes of CORPUS alone: other bytes are left out, or become <unk>, one each or one a run.
    lacking = {"lacks_bytes": {}, "unknown": {"unk_token": "<unk>"}, "unknown_fused": {"unk_token": "<unk>", "fuse_unk": True}}
    kinds |= {name: kinds["digits"] for name in lacking}
    for name, (normalizer, pre_tokenizer, ignore_merges, tokens) in kinds.items():
        tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges, **lacking.get(name, {})))
        # "gaps" cuts where merges were learnt across, so that each cut shows in the ids.
        tokenizer.pre_tokenizer = split(LLAMA3) if name == "gaps" else pre_tokenizer
        tokenizer.decoder = decoders.ByteLevel()
        if normalizer:
            tokenizer.normalizer = normalizer
        tokenizer.train_from_iterator(CORPUS, trainers.BpeTrainer(
            vocab_size=400, min_frequency=2, show_progress=False, special_tokens=["<unk>"] if lacking.get(name) else [],
            initial_alphabet=[] if name in lacking else pre_tokenizers.ByteLevel.alphabet()))
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.add_tokens(tokens)
        if name == "llama3":
            end = tokenizer.token_to_id("<|end|>")
            tokenizer.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
                single="<|end|> $A", pair="<|end|> $A <|end|> $B", special_tokens=[("<|end|>", end)])])
        yield name, tokenizer


MARK = "\u2581"
SPACED_PIECES = ["<s>", "</s>", " <s>", "<unk>", MARK, MARK + MARK, "<0x0A>", "é", "\ufffd", " "]


def spaced_families():
    """Small tokenizers of SentencePiece's kind: spaces are spelled MARK, and other characters fall back to bytes."""
    marked = normalizers.Replace(" ", MARK)
    llama = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    gemma = decoders.Sequence([decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()])
    split = pre_tokenizers.Split(" ", "merged_with_previous")
    space = pre_tokenizers.Metaspace
    kinds = {  # name: normalizer, pre-tokenizer, decoder, whether bytes have tokens, whether unknown ones are fused
        "spaced_llama2": (normalizers.Sequence([normalizers.Prepend(MARK), marked]), None, llama, True, True),
        "spaced_first": (None, space(MARK, prepend_scheme="first", split=False), llama, True, True),
        "spaced_each": (None, space(MARK, prepend_scheme="always", split=True), decoders.Sequence(
            [decoders.ByteFallback(), decoders.Metaspace(MARK, prepend_scheme="always")]), True, False),
        "spaced_gemma": (marked, split, gemma, True, True),
        "spaced_unknown": (None, space(MARK, prepend_scheme="never", split=True), gemma, False, True),
        "spaced_unfused": (None, space(MARK, prepend_scheme="never", split=True), gemma, False, False)}
    for name, (normalizer, pre_tokenizer, decoder, has_bytes, fuses) in kinds.items():
        trained = Tokenizer(models.BPE(unk_token="<unk>"))
        trained.normalizer, trained.pre_tokenizer = normalizer or marked, pre_tokenizer or None
        # Merges across spaces show where a kind cuts.
        trained.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=330, min_frequency=2, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"]))
        learnt = json.loads(trained.to_str())["model"]
        words = sorted(learnt["vocab"], key=learnt["vocab"].get)
        words[3:3] = [f"<0x{byte:02X}>" for byte in range(256)] if has_bytes else []
        tokenizer = Tokenizer(models.BPE({word: id for id, word in enumerate(words)}, [tuple(merge) for merge in learnt["merges"]],
                                         unk_token="<unk>", fuse_unk=fuses, byte_fallback=has_bytes))
        tokenizer.decoder = decoder
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre_tokenizer:
            tokenizer.pre_tokenizer = pre_tokenizer
        is_old = name == "spaced_llama2"  # files of then look for control tokens in the normalized text
        tokenizer.add_special_tokens([AddedToken(text, normalized=is_old) for text in ("<unk>", "<s>", "</s>")])
        tokenizer.add_special_tokens([AddedToken("<|end|>", normalized=False, rstrip=name == "spaced_first")])
        tokenizer.add_tokens([AddedToken("    ", normalized=False)] if name == "spaced_gemma" else [])
        yield name, tokenizer


# What SentencePiece's compiler is given for "spaced_map": code points, and what they become. Clusters, one to many, many to none.
CHARACTERS = [("\uff11", "1"), ("\uff41", "a"), ("\ufb01", "fi"), ("e\u0301", "é"), ("\u00a0", " "), ("\t", " "), ("\n", " "), ("\r", " "),
              ("\u200b", ""), ("\u00bd", "1/2"), ("\u0301", ""), ("ｶ\uff9e", "ガ"), ("ﾊ", "ハ")]


def compiled(rules):
    """The map that SentencePiece's trainer compiles of rules, in base64."""
    with tempfile.TemporaryDirectory() as folder:
        table, model = Path(folder) / "rules.tsv", io.BytesIO()
        table.write_text("".join(" ".join(f"{ord(c):X}" for c in text) + "\t" + " ".join(f"{ord(c):X}" for c in other) + "\n"
                                 for text, other in rules))
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=90, model_type="unigram",
                                                 normalization_rule_tsv=str(table), minloglevel=2)
        spec = sentencepiece_model_pb2.ModelProto.FromString(model.getvalue()).normalizer_spec
        return base64.b64encode(spec.precompiled_charsmap).decode()


def unigram_families():
    """Small Unigram tokenizers, as transformers converts SentencePiece's: with bytes, and with a map of characters."""
    space = pre_tokenizers.Metaspace
    ends = [normalizers.Strip(left=False, right=True), normalizers.Replace(Regex(" {2,}"), MARK)]
    for name, has_bytes, charsmap in (("spaced_unigram", True, None), ("spaced_map", False, compiled(CHARACTERS))):
        trained = Tokenizer(models.Unigram())
        trained.pre_tokenizer = space(MARK, prepend_scheme="always")
        trained.train_from_iterator(CORPUS, trainers.UnigramTrainer(
            vocab_size=300, show_progress=False, special_tokens=["<unk>", "<s>", "</s>"], unk_token="<unk>"))
        vocab = [(piece, score) for piece, score in json.loads(trained.to_str())["model"]["vocab"]]
        vocab[3:3] = [(f"<0x{byte:02X}>", 0.0) for byte in range(256)] if has_bytes else []
        tokenizer = Tokenizer(models.Unigram(vocab, 0, has_bytes))
        root = json.loads(tokenizer.to_str())
        if charsmap:
            root["normalizer"] = {"type": "Sequence", "normalizers": [{"type": "Precompiled", "precompiled_charsmap": charsmap}]}
            tokenizer = Tokenizer.from_str(json.dumps(root))
            tokenizer.normalizer = normalizers.Sequence([tokenizer.normalizer[0], *ends])
        tokenizer.pre_tokenizer = space(MARK, prepend_scheme="always" if charsmap else "first", split=bool(charsmap))
        tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(MARK, prepend_scheme="always")])
        tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in ("<unk>", "<s>", "</s>")])
        yield name, tokenizer


def make_families():
    folder = OUT.parent / "tokenizer_bpe"
    folder.mkdir(exist_ok=True)
    rng = random.Random(SEED)
    for name, tokenizer in itertools.chain(families(), spaced_families(), unigram_families()):
        (folder / f"{name}.json").write_text(tokenizer.to_str())
        pieces = PIECES + SPACED_PIECES * 4 if name.startswith("spaced") else PIECES
        if name == "spaced_unigram":  # whose library reads a byte's token in text, which this program does not
            pieces = [piece for piece in pieces if piece != "<0x0A>"]
        pieces = pieces + [text for text, _ in CHARACTERS] * 2 if name == "spaced_map" else pieces
        texts = TEXTS + CORPUS[:7] + ["".join(rng.choice(pieces) for _ in range(rng.randrange(1, 25))) for _ in range(80)]
        rows = [{"text": text, "ids": tokenizer.encode(text, add_special_tokens=False).ids,
                 "with_special": tokenizer.encode(text).ids} for text in texts]
        if name.startswith("spaced"):
            special = {id for id, token in tokenizer.get_added_tokens_decoder().items() if token.special}
            for row in rows:  # the library keeps a special token whose text it normalized
                row["decoded"] = tokenizer.decode([id for id in row["ids"] if id not in special])
        (folder / f"{name}.cases.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "manifest.json").write_text(json.dumps(
        {"command": "python3 scripts/golden/tokenizer.py", "seed": SEED, "tokenizers": tokenizers.__version__,
         "files": {"NAME.json": "a small tokenizer of that kind, trained by the script", "NAME.cases.jsonl": "texts and their ids"}},
        indent=2) + "\n")


def check(folder):
    for tokenizer in (AutoTokenizer.from_pretrained(folder), PreTrainedTokenizerFast.from_pretrained(folder)):
        assert tokenizer.eos_token_id == tokenizer.pad_token_id == 256, (tokenizer.eos_token_id, tokenizer.pad_token_id)
        assert len(tokenizer) == 259, len(tokenizer)
        rows = [json.loads(line) for line in (OUT / "cases.jsonl").open()]
        for row in rows:
            ids = tokenizer(row["text"], add_special_tokens=False)["input_ids"]
            assert ids == row["trusted"], (row["text"], ids)
            assert tokenizer(row["text"])["input_ids"] == row["trusted"], row["text"]
            assert tokenizer.decode(ids, skip_special_tokens=True) == row["decoded"], row["text"]
    print(f"{folder}: {len(rows)} texts read to the same ids by transformers {transformers.__version__}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--check"]:
        check(sys.argv[2])
    else:
        make()
        make_families()
