"""Page of a study: from the contents of its store to one HTML file."""

import json
from collections.abc import Iterator
from html import escape

from korisk._group import grouped
from korisk.planning import words
from korisk.planning.targets import Group, with_valid_targets
from korisk.report.contents import SUPPLEMENTS, Contents, refuse_an_empty_one
from korisk.report.figures.study import page_figures
from korisk.report.page.page import Page, Section, bullets, figure_html
from korisk.report.page.planner import Watch, unwatched
from korisk.report.page.prediction import prediction_section
from korisk.report.tables.tables import study_tables
from korisk.report.tables.text import html as table_html
from korisk.texts import counted

# Alternative texts of figures, by the first word of their names.
_WORDS = {
    "sample": "Errors over training samples at every point",
    "reconstructions": "Test images, and their reconstructions and errors by every model",
}


def study_page(contents: Contents, *, target: float | None = None, watch: Watch = unwatched) -> str:
    """Write the page of a study as one text; no network is fitted again.

    `contents` is what `read_contents` returns, `target` the first target (default: close to the
    lowest error of the first model), and `watch` is called with the name of each step.
    """
    refuse_an_empty_one(contents)
    groups, refused = with_valid_targets(
        [
            Group.of_curves(point.name, point.curves, requested=target, complete=point.complete)
            for point in contents.points
            if point.curves
        ]
    )
    watch("tables")
    tables = {table.name: table for table in study_tables(contents)}
    opening = verdicts = ""
    for supplement in SUPPLEMENTS:
        question, sentences, names = supplement.opening(contents)
        if sentences:
            beside = "".join(table_html(tables.pop(name)) for name in names if name in tables)
            heads = [text for text in sentences if text.startswith((words.NEXT, words.SURE))]
            lines = "".join(f"<p>{escape(text)}</p>" for text in heads)
            opening = (
                f'<section id="opening"><p class="question">{escape(question)}</p>'
                f'<h1 class="answer">{escape(sentences[0])}</h1>{lines}'
                f"<h2>The paper's tables beside ours</h2>{beside}</section>"
            )
            verdicts = bullets(text for text in sentences[1:] if text not in heads)
    predicted, unseen = prediction_section(contents)
    figures = ""
    for name, wide, narrow in page_figures(contents):
        watch(name)
        alt_text = _WORDS.get(name.partition("_")[0], name)
        figures += figure_html(wide, alt_text, f"{alt_text}.", narrow=narrow)
    sections = [
        Section("verdicts", "At each image side H", verdicts),
        Section("predicted", "Predicted before training", predicted),
        Section("figures", "Figures", figures),
        Section("tables", "Tables", "".join(map(table_html, tables.values()))),
        Section("how", "How it was measured", _how(contents)),
    ]
    return Page(
        title=contents.name,
        kind="korisk report of a study",
        groups=groups,
        notes=[*_missing(contents), *refused, *unseen],
        opening=opening,
        sections=[section for section in sections if section.html],
    ).html(watch)


def _missing(contents: Contents) -> Iterator[str]:
    """Sentences on missing and failed cells, and on values that were left out."""
    for point in contents.points:
        name, missing, failed = point.name, point.missing, len(point.failures)
        if missing:
            total = len(point.cells) + failed + len(missing)
            seeds = f"seed{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing[:8]))}"
            seeds += f" and {len(missing) - 8} more" if len(missing) > 8 else ""
            cells = f"{len(missing)} of {total} cells"
            yield f"{name}: {cells} are missing ({seeds}); run the study again to add them."
        if failed:
            reason = point.failures[0].reason
            yield f"{name}: {counted(failed, 'cell')} failed, the first: {reason}"
        yield from (f"{name}: {sentence}." for sentence in point.left_out)


def _how(contents: Contents) -> str:
    """HTML of cells, time, machine and versions, and of every setting of every point."""
    cells = [cell for point in contents.points for cell in point.cells]
    total = sum(cell.usage.seconds for cell in cells)
    work_time = f"{total / 60:,.1f} minutes of work" if total >= 90 else f"{total:.1f} s of work"
    facts = [
        ("Store", contents.store.name),
        ("Begun", f"{contents.created[:16].replace('T', ' ')} UTC"),
        ("Cells", f"{len(cells):,} finished, {work_time}"),
        ("Made with", f"korisk {contents.korisk}"),
    ]
    for field in ("versions", "machine"):
        pairs = [pair for cell in cells for pair in getattr(cell.usage, field).items()]
        by_name = grouped((str(name), str(value)) for name, value in pairs if name != "korisk")
        facts += [(name, ", ".join(sorted(set(values)))) for name, values in by_name.items()]
    rows = "".join(f"<div><dt>{escape(a)}</dt><dd>{escape(b)}</dd></div>" for a, b in facts)
    html = f'<dl class="facts">{rows}</dl>'
    for point in contents.points:
        seeds = [cell.task.seed for cell in point.cells]
        spec = {"metric": point.metric, "seeds": seeds, **point.spec}
        settings = escape(json.dumps(spec, indent=1, default=str, ensure_ascii=False))
        summary = f"<summary>{escape(point.name)}: what was run</summary>"
        html += f"<details>{summary}<pre>{settings}</pre></details>"
    return html
