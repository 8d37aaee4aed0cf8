# SPDX-License-Identifier: Apache-2.0
"""Pictures of rondo bench --plot, as a headless browser shows them.

  check_pictures.py RONDO FOLDER     the pictures stay in FOLDER

The browser (Chromium) draws each one. Its pixels show both axes of a panel, and each curve in its
colour, in the panel and in the legend; its document has the texts, none of which lies outside its
picture or over another one. A page is no wider than its window.
"""
import html
import json
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

RONDO, FOLDER = (Path(word).resolve() for word in sys.argv[1:])
COLOURS = [(0xC0, 0x39, 0x2B), (0x29, 0x80, 0xB9), (0x16, 0xA0, 0x85), (0x8E, 0x44, 0xAD)]
SIZE = ["-b", "1K", "-e", "1M", "-f", "4", "-n", "5", "-w", "1", "--no-progress"]
# What the browser knows of a page and of the texts of its pictures.
PROBE = """<pre id="seen" hidden></pre><script>
const box = (e) => {
  const r = e.getBoundingClientRect();
  return [r.left, r.top, r.right, r.bottom];
};
document.getElementById("seen").textContent = JSON.stringify({
  pictures: [...document.querySelectorAll("svg")].map((svg) => ({box: box(svg),
    texts: [...svg.querySelectorAll("text")].filter((t) => t.textContent.trim())
      .map((t) => ({text: t.textContent.trim(), box: box(t)}))}))});
</script>"""


def run(*command, statuses=(0,)):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, check=False)
    assert done.returncode in statuses, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def browser(*options):
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "no chromium: .ci/install.sh --pictures installs it"
    with tempfile.TemporaryDirectory() as home:
        return run(program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
                   "--disable-dev-shm-usage", f"--user-data-dir={home}", "--no-first-run", *options)


class Picture:
    """The pixels of a PNG file of eight bits a channel."""

    def __init__(self, path):
        data, packed, at = path.read_bytes(), b"", 8
        while at < len(data):
            size, kind = struct.unpack(">I4s", data[at:at + 8])
            if kind == b"IHDR":
                self.width, self.height, depth, colours = struct.unpack(
                    ">IIBB", data[at + 8:at + 18])
                assert depth == 8 and colours in (2, 6), (path, depth, colours)
            packed += data[at + 8:at + 8 + size] if kind == b"IDAT" else b""
            at += size + 12
        self.step = 3 if colours == 2 else 4
        self.rows, raw, size = [], zlib.decompress(packed), self.width * self.step
        above = bytearray(size)
        for begin in range(0, len(raw), size + 1):
            above = self.unfiltered(raw[begin], bytearray(raw[begin + 1:begin + 1 + size]), above)
            self.rows.append(above)

    def unfiltered(self, how, row, above):
        step = self.step
        for i in range(len(row) if how else 0):
            left, up = (row[i - step] if i >= step else 0), above[i]
            corner = above[i - step] if i >= step else 0
            if how == 4:
                near = left + up - corner
                by = [abs(near - left), abs(near - up), abs(near - corner)]
                row[i] = (row[i] + (left, up, corner)[by.index(min(by))]) & 255
            else:
                row[i] = (row[i] + (0, left, up, (left + up) // 2)[how]) & 255
        return row

    def at(self, x, y):
        return tuple(self.rows[y][x * self.step:x * self.step + 3])

    def near(self, colour, box):
        """Where pixels of about this colour are, within left, top, right, bottom."""
        left, top, right, bottom = box
        return [(x, y) for y in range(max(int(top), 0), min(int(bottom) + 1, self.height))
                for x in range(max(int(left), 0), min(int(right) + 1, self.width))
                if max(abs(a - b) for a, b in zip(self.at(x, y), colour)) <= 40]

    def frame(self, left, right):
        """The axes of the panel between two columns: the lines that are dark for half of it."""
        def longest(line):
            runs = re.findall("x+", "".join("x" if max(self.at(*p)) < 100 else " " for p in line))
            return max(map(len, runs), default=0)
        across = [y for y in range(self.height)
                  if longest([(x, y) for x in range(left, right)]) > (right - left) / 2]
        down = [x for x in range(left, right)
                if longest([(x, y) for y in range(self.height)]) > self.height / 2]
        assert across and down, f"no axes between columns {left} and {right}"
        return min(down), min(across), max(down), max(across)


def shown(page, name, width, height):
    """A page's pixels and PROBE's answer."""
    shot, probed = FOLDER / f"{name}.png", FOLDER / f"{name}.probed.html"
    probed.write_text(page.replace("</body>", PROBE + "</body>"))
    browser(f"--window-size={width},{height}", f"--screenshot={shot}", probed.as_uri())
    dom = browser(f"--window-size={width},{height}", "--dump-dom", probed.as_uri())
    seen = re.search(r'<pre id="seen" hidden[^>]*>(.*?)</pre>', dom, re.DOTALL)[1]
    probed.unlink()
    return Picture(shot), json.loads(html.unescape(seen))


def is_apart(a, b):
    return a[2] <= b[0] + 1 or b[2] <= a[0] + 1 or a[3] <= b[1] + 1 or b[3] <= a[1] + 1


def check_texts(name, picture):
    left, top, right, bottom = picture["box"]
    texts = picture["texts"]
    for text in texts:
        a = text["box"]
        assert left - 1 <= a[0] and a[2] <= right + 1 and top - 1 <= a[1] and a[3] <= bottom + 1, \
            f"{name}: '{text['text']}' lies outside: {a} of {picture['box']}"
    for i, one in enumerate(texts):
        for other in texts[:i]:
            assert is_apart(one["box"], other["box"]), \
                f"{name}: '{one['text']}' lies over '{other['text']}'"


def check_curves(name, pixels, frame, curves):
    """Each colour in the frame, over most of its width."""
    for colour in COLOURS[:curves]:
        at = pixels.near(colour, frame)
        wide = max(x for x, _ in at) - min(x for x, _ in at) if at else 0
        assert len(at) > 150 and wide > 0.7 * (frame[2] - frame[0]), \
            f"{name}: {len(at)} pixels of #{bytes(colour).hex()}, {wide} columns wide"


def check_panels(name, pixels, picture, legends):
    """legends: the curves' names; those of the baseline have the same colours in turn."""
    left, _, right, _ = map(int, picture["box"])
    for panel in (0, 1):
        begin = left + (right - left) * panel // 2
        end = min(left + (right - left) * (panel + 1) // 2, pixels.width)
        frame = pixels.frame(begin, end)
        check_curves(name, pixels, frame, 2)
        texts = [t for t in picture["texts"] if begin <= t["box"][0] < end]
        words = [t["text"] for t in texts]
        for word in ["bytes", ("microseconds", "GB/s")[panel], "1 KiB", "1 MiB"] + legends:
            assert words.count(word) == 1, f"{name}: {words.count(word)} times '{word}': {words}"
        for text in texts:
            if text["text"] not in legends:
                continue
            a = text["box"]
            colour = COLOURS[legends.index(text["text"]) % 2]
            assert len(pixels.near(colour, (a[0] - 70, a[1], a[2] + 70, a[3]))) > 15, \
                f"{name}: no line beside '{text['text']}'"
            assert a[1] > frame[3], f"{name}: the legend lies over the panel"
        print(f"{name}: panel {panel + 1}: axes {frame}, {len(words)} texts, legend {legends}")


def check_svg(name, file, legends):
    svg = file.read_text()
    page = f'<body style="margin: 0">{svg[svg.index("<svg"):]}</body>'
    pixels, seen = shown(page, name, 1120, 420)
    (picture,) = seen["pictures"]
    check_texts(name, picture)
    check_panels(name, pixels, picture, legends)


def check_png(name, file, curves):
    pixels = Picture(file)
    for panel in (0, 1):
        frame = pixels.frame(pixels.width * panel // 2, pixels.width * (panel + 1) // 2)
        check_curves(name, pixels, frame, curves)
        below = (0, frame[3] + 2, pixels.width - 1, pixels.height - 1)
        for colour in COLOURS[:curves]:
            assert len(pixels.near(colour, below)) > 15, f"{name}: no legend"
        print(f"{name}: panel {panel + 1}: axes {frame}")


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    for old in FOLDER.iterdir():
        old.unlink()
    bench = [RONDO, "bench", "all_reduce", "--ranks", "2", *SIZE]
    run(*bench, "--json", FOLDER / "bench.json", "--plot", FOLDER / "bench.svg")
    check_svg("bench", FOLDER / "bench.svg", ["out of place", "in place"])
    run(*bench, "--baseline", FOLDER / "bench.json", "--plot", FOLDER / "baseline.svg",
        statuses=(0, 7))
    check_svg("baseline", FOLDER / "baseline.svg",
              ["out of place", "in place", "baseline out of place", "baseline in place"])
    run(*bench, "--plot", FOLDER / "plain.png")
    check_png("plain", FOLDER / "plain.png", 2)


main()
