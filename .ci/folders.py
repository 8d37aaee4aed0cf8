"""Finds circles of includes between folders: two folders that include each other, directly or by
way of others, cannot be understood or tested one at a time."""
import re

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path):
    return path.rpartition("/")[0]


def includes_between_folders(paths):
    """The includes of these sources that name a source of another folder: {(from, to): paths}."""
    known, edges = set(paths), {}
    for path in paths:
        with open(path, encoding="utf-8") as file:
            for target in INCLUDE.findall(file.read()):
                edge = folder_of(path), folder_of(target)
                if target in known and edge[0] != edge[1]:
                    edges.setdefault(edge, []).append((path, target))
    return edges


def reachable(start, follows):
    """The folders that `start` includes, directly or not."""
    found, waiting = set(), [start]
    while waiting:
        for folder in follows.get(waiting.pop(), ()):
            if folder not in found:
                found.add(folder)
                waiting.append(folder)
    return found


def circle_findings(paths):
    """Each include that is part of a circle."""
    edges = includes_between_folders(paths)
    follows = {}
    for folder, included in edges:
        follows.setdefault(folder, set()).add(included)
    below = {folder: reachable(folder, follows) for folder in follows}
    for (folder, included), sources in sorted(edges.items()):
        if folder in below.get(included, ()):
            for path, target in sources:
                yield path, f"includes {target}, but {included} includes {folder}: a circle"
