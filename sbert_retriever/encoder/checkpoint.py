"""Read the description of a checkpoint: a sentence-transformers folder, or a plain one.

Keys and class names are taken in the spellings of every sentence-transformers release.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal, TypeAlias

from sbert_retriever.encoder.json_files import load_json, read_json
from sbert_retriever.encoder.onnx_weights import load_onnx_bert, onnx_file
from sbert_retriever.encoder.packaged import PackagedModel
from sbert_retriever.encoder.pooling import POOLINGS
from sbert_retriever.errors import ModelFormatError
from sbert_retriever.types import Role

Similarity: TypeAlias = Literal["cosine", "dot", "neg_l2", "neg_l1"]

# The switches of a Pooling config, in the order in which several are concatenated.
_POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last_token",
}
_POOLING_NAMES = {
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}
_SIMILARITIES: dict[str, Similarity] = {
    "cosine": "cosine",
    "dot": "dot",
    "dot_product": "dot",
    "euclidean": "neg_l2",
    "manhattan": "neg_l1",
}
# Of token vectors of length 1; the mean over a query's tokens orders passages as the sum does.
_TOKEN_SIMILARITIES = ("MaxSim", "maxsim", "meanmaxsim")
_ACTIVATIONS = ("Tanh", "Identity", "ReLU", "GELU", "Sigmoid", "SiLU")
_TRANSFORMER_CONFIGS = (
    "bert",
    "roberta",
    "distilbert",
    "camembert",
    "albert",
    "xlm-roberta",
    "xlnet",
)
_ROLE_PROMPTS: dict[Role, tuple[str, ...]] = {
    "query": ("query",),
    "passage": ("document", "passage", "corpus"),
}
_NO_LENGTH = 1_000_000
"""Lengths from here on are how a tokenizer says that it has none."""


@dataclass(frozen=True)
class DenseSpec:
    """A linear layer after the pooling.

    Args:
        folder: Where its weights are.
        in_features: Width before.
        out_features: Width after.
        bias: Whether it has one.
        activation: Name of the torch.nn class after it.
        residual: Whether its input is added to its output, through a map of its own where the
            widths differ.
    """

    folder: Path
    in_features: int
    out_features: int
    bias: bool
    activation: str
    residual: bool = False


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """What the files of a checkpoint say.

    Args:
        folder: The whole.
        transformer: The folder of the transformer, its config and tokenizer.
        config: The transformer's config.json; empty where there is none.
        max_length: Tokens the model reads, special ones included; None is without limit.
        lowercase: Whether texts are lower-cased before the tokenizer.
        pooling: One mode or several, concatenated.
        include_prompt: Whether the prompt's tokens take part in pooling.
        denses: Linear layers after the pooling.
        normalize: Whether vectors leave with length 1.
        prompts: By name.
        default_prompt: The name of the prompt for texts of any role.
        similarity: Which score the vectors are made for.
        precision: How the weights are kept; None is read off them.
    """

    folder: Path
    transformer: Path
    config: Mapping[str, Any] = field(default_factory=dict)
    max_length: int | None = None
    lowercase: bool = False
    pooling: tuple[str, ...] = ("mean",)
    include_prompt: bool = True
    denses: tuple[DenseSpec, ...] = ()
    normalize: bool = False
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt: str | None = None
    similarity: Similarity = "cosine"
    precision: str | None = None

    def prompt(self, role: Role) -> str:
        """The prompt of a role, else the default one, unless that belongs to the other role.

        An empty prompt counts as none: sentence-transformers writes `"document": ""` beside a
        `"passage"` that is meant.
        """
        found = next((p for name in _ROLE_PROMPTS[role] if (p := self.prompts.get(name))), None)
        others = {name for names in _ROLE_PROMPTS.values() for name in names}
        if found is None and self.default_prompt not in others:
            found = self.prompts.get(self.default_prompt or "")
        return found or ""


def read_checkpoint(folder: Path, packaged: PackagedModel | None = None) -> Checkpoint:
    """Read what the files of a folder say about a model; no weights are touched.

    Args:
        folder: With modules.json (sentence-transformers), or config.json or model.onnx alone
            (then pooling is the mean, as Contriever needs).
        packaged: Facts that a package's files leave out.

    Raises:
        ModelFormatError: A file cannot be read, or asks for something that is not supported.
    """
    if (folder / "modules.json").is_file():
        return _read_modules(folder)
    checkpoint = _with_transformer(Checkpoint(folder=folder, transformer=folder))
    return checkpoint if packaged is None else _with_package(checkpoint, packaged)


def read_transformer(folder: Path, path: str) -> Checkpoint:
    """Read what the files say of a transformer alone, in a folder `path` of `folder`.

    Raises:
        ModelFormatError: As `read_checkpoint`.
    """
    return _with_transformer(Checkpoint(folder=folder, transformer=inside(folder, path)))


def read_modules(folder: Path) -> list[tuple[str, str]]:
    """The modules of a folder of sentence-transformers: class, and folder within.

    Raises:
        ModelFormatError: modules.json cannot be read, or is something else.
    """
    return [_typed(folder, module) for module in _module_list(folder)]


def _with_package(checkpoint: Checkpoint, packaged: PackagedModel) -> Checkpoint:
    return replace(
        checkpoint,
        max_length=packaged.max_length or checkpoint.max_length,
        pooling=(packaged.pooling,) if packaged.pooling else checkpoint.pooling,
        normalize=checkpoint.normalize if packaged.normalize is None else packaged.normalize,
        precision=packaged.precision,
    )


def has_routes(folder: Path) -> bool:
    """Whether a folder holds one encoder for queries and one for passages (a Router)."""
    return (folder / "router_config.json").is_file()


def read_routes(folder: Path) -> dict[Role, Checkpoint]:
    """Read what the files of a Router say: the encoder of queries and that of passages.

    Modules after the Router are part of both.

    Raises:
        ModelFormatError: A file cannot be read, or a route is missing.
    """
    router = read_json(folder / "router_config.json")
    types, structure = router.get("types") or {}, router.get("structure") or {}
    names: dict[Role, tuple[str, ...]] = {"query": ("query",), "passage": ("document", "passage")}
    routes: dict[Role, Checkpoint] = {}
    for role, known in names.items():
        parts = next((structure[name] for name in known if name in structure), None)
        if parts is None:
            raise ModelFormatError(
                f"{folder / 'router_config.json'} has the routes {', '.join(structure) or 'none'}, "
                "expected query and document"
            )
        modules = [{"type": types.get(part), "path": part} for part in parts]
        routes[role] = _with_modules(folder, [*modules, *_module_list(folder)[1:]])
    return routes


def _module_list(folder: Path) -> list[Any]:
    modules = load_json(folder / "modules.json")
    if not isinstance(modules, list):
        raise ModelFormatError(
            f"{folder / 'modules.json'} holds a {type(modules).__name__}, expected a list"
        )
    return modules


def _read_modules(folder: Path) -> Checkpoint:
    return _with_modules(folder, _module_list(folder))


def _with_modules(folder: Path, modules: Sequence[Any]) -> Checkpoint:
    whole = read_json(folder / "config_sentence_transformers.json")
    checkpoint = Checkpoint(
        folder=folder,
        transformer=folder,
        prompts={k: v for k, v in (whole.get("prompts") or {}).items() if isinstance(v, str)},
        default_prompt=whole.get("default_prompt_name"),
        similarity=_similarity(whole.get("similarity_fn_name"), folder),
    )
    for module in modules:
        checkpoint = _with_module(checkpoint, module)
    return checkpoint


def _similarity(name: str | None, folder: Path) -> Similarity:
    if name is None or name in _TOKEN_SIMILARITIES:
        return "cosine"
    if name not in _SIMILARITIES:
        raise ModelFormatError(
            f"{folder} names the similarity {name!r}, expected one of {', '.join(_SIMILARITIES)}"
        )
    return _SIMILARITIES[name]


def _with_module(checkpoint: Checkpoint, module: Any) -> Checkpoint:
    """Add one entry of modules.json."""
    kind, path = _typed(checkpoint.folder, module)
    part = inside(checkpoint.folder, path)
    known = kind.startswith(("sentence_transformers.", "pylate.models."))
    reader = _READERS.get(kind.rsplit(".", 1)[-1]) if known else None
    if known and kind.endswith(".Router"):
        raise ModelFormatError(
            f"{checkpoint.folder} holds one encoder for queries and one for passages (a Router): "
            "load it with TwoEncoders"
        )
    if reader is None:
        raise ModelFormatError(
            f"{checkpoint.folder} uses the module {kind}, expected Transformer, Pooling, Dense or "
            "Normalize of sentence-transformers: code from a repository is never run here"
        )
    return reader(checkpoint, part)


def _typed(folder: Path, module: Any) -> tuple[str, str]:
    """Class and folder of an entry of modules.json."""
    try:
        return str(module["type"]), str(module.get("path", ""))
    except (TypeError, KeyError, AttributeError) as error:
        raise ModelFormatError(
            f"{folder / 'modules.json'} has an entry without a type: {module!r}"
        ) from error


def inside(folder: Path, path: str) -> Path:
    """A module's folder, which may not lie outside its model's."""
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ModelFormatError(f"{folder / 'modules.json'} points outside its folder: {path!r}")
    return folder / path


def _read_transformer(checkpoint: Checkpoint, part: Path) -> Checkpoint:
    return _with_transformer(replace(checkpoint, transformer=part))


def _with_transformer(checkpoint: Checkpoint) -> Checkpoint:
    """Add the transformer's config, and the length it reads.

    The model's own max_seq_length wins over the tokenizer's; both end where the position
    embeddings end.
    """
    part = checkpoint.transformer
    config = read_json(part / "config.json")
    if not config and onnx_file(part) is not None:
        config = load_onnx_bert(part)[0]
    if "auto_map" in config:
        raise ModelFormatError(
            f"{part} needs code from its own repository (auto_map in config.json), which is never "
            "run here: use a model of an architecture that transformers knows"
        )
    sizes = next(
        (read_json(p) for n in _size_files() if (p := part / n).is_file()), dict[str, Any]()
    )
    tokenizer = read_json(part / "tokenizer_config.json")
    wanted = sizes.get("max_seq_length") or tokenizer.get("model_max_length")
    return replace(
        checkpoint,
        config=config,
        max_length=_shortest(wanted, position_limit(config)),
        lowercase=bool(sizes.get("do_lower_case", False)),
    )


def _size_files() -> tuple[str, ...]:
    return tuple(f"sentence_{name}_config.json" for name in _TRANSFORMER_CONFIGS)


def position_limit(config: Mapping[str, Any]) -> int | None:
    """How many tokens the position embeddings allow; RoBERTa keeps the first ones for padding."""
    limit = config.get("max_position_embeddings")
    if not isinstance(limit, int) or limit <= 0:
        return None
    offset = config.get("model_type") in {"roberta", "xlm-roberta", "camembert", "mpnet"}
    return limit - int(config.get("pad_token_id") or 0) - 1 if offset else limit


def _shortest(*lengths: Any) -> int | None:
    known = [int(x) for x in lengths if isinstance(x, int | float) and 0 < x < _NO_LENGTH]
    return min(known, default=None)


def _read_pooling(checkpoint: Checkpoint, part: Path) -> Checkpoint:
    if not (part / "config.json").is_file():
        raise ModelFormatError(
            f"{part / 'config.json'} is missing, which says how to pool: get the whole model"
        )
    config = read_json(part / "config.json")
    modes = config.get("pooling_mode")
    if modes is None:
        modes = [name for key, name in _POOLING_SWITCHES.items() if config.get(key)] or ["mean"]
    modes = (modes,) if isinstance(modes, str) else tuple(modes)
    names = tuple(_POOLING_NAMES.get(mode, mode) for mode in modes)
    if unknown := set(names) - set(POOLINGS):
        raise ModelFormatError(
            f"{part} pools by {', '.join(sorted(unknown))}, expected {', '.join(POOLINGS)}"
        )
    return replace(
        checkpoint, pooling=names, include_prompt=bool(config.get("include_prompt", True))
    )


def _read_dense(checkpoint: Checkpoint, part: Path) -> Checkpoint:
    if checkpoint.normalize:
        raise ModelFormatError(f"{part} is a Dense layer after Normalize, expected it before")
    config = read_json(part / "config.json")
    activation = str(config.get("activation_function", "torch.nn.modules.activation.Tanh"))
    name = activation.rsplit(".", 1)[-1]
    if not activation.startswith("torch.nn.") or name not in _ACTIVATIONS:
        raise ModelFormatError(
            f"{part} has the activation {activation}, expected one of torch.nn: "
            f"{', '.join(_ACTIVATIONS)}"
        )
    try:
        sizes = int(config["in_features"]), int(config["out_features"])
    except KeyError as error:
        raise ModelFormatError(f"{part / 'config.json'} has no {error}") from error
    dense = DenseSpec(
        part,
        *sizes,
        bias=bool(config.get("bias", True)),
        activation=name,
        residual=bool(config.get("use_residual", False)),
    )
    return replace(checkpoint, denses=(*checkpoint.denses, dense))


def _read_normalize(checkpoint: Checkpoint, part: Path) -> Checkpoint:
    del part
    return replace(checkpoint, normalize=True)


def _read_mask(checkpoint: Checkpoint, part: Path) -> Checkpoint:
    """Which token vectors count, which `colbert_settings` reads for late interaction."""
    del part
    return checkpoint


_READERS = {
    "Transformer": _read_transformer,
    "Pooling": _read_pooling,
    "Dense": _read_dense,
    "Normalize": _read_normalize,
    "MultiVectorMask": _read_mask,
}
