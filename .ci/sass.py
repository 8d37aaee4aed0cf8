# SPDX-License-Identifier: Apache-2.0
"""Reads the machine code of kernels as cuobjdump lists it, and checks it against rules.

`code_of(listing)` returns the instructions of each kernel, including functions that it calls. RULES
lists the rules and their kernels. `self_test()` plants a fault for each rule.
"""
import re
from dataclasses import dataclass, field

INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)([^;]*);", re.M)
REGISTER = re.compile(r"(?<![\w.])R(\d+)(\.64)?")
JUMPS = ("BRA", "BRX", "JMP", "RET", "EXIT", "CALL", "BSYNC", "WARPSYNC", "BAR", "BREAK")
# Kernels that move data in lines with flags, and kernels that guarantee many loads in flight (not
# the wide ones, which read words of 8 bytes).
LINES = ("Connected<", "LLPush<")
MANY_LOADS = ("DirectCopy<", "stored DirectCopy<", "Connected<CopyMath",
              *(f"DirectReduce<{t}, sum, false, false" for t in ("float32", "float16", "bfloat16")))
MIN_IN_FLIGHT = 8
# Kernels whose only fences of the system are the release of a barrier and a late wait's report.
MEETS = ("DirectReduce<", "DirectCopy<", "StagedCopy", "ClearLines", "Meeting")
MAX_SYSTEM_FENCES = 2
# And in pairs: those of a line of all peers, or of several lines.
PAIRS_IN_FLIGHT = (("LLPush<SumMath", 8), ("Connected<CopyMath", 4), ("Connected<AnyMath", 4),
                   ("Connected<SumMath<float32", 4), ("Connected<SumMath", 2))


@dataclass
class Instruction:
    at: int
    name: str
    operands: str

    def is_vector_load(self):
        return self.name.startswith("LDG") and ".128" in self.name and "STRONG" not in self.name

    def is_pair_load(self):
        return self.is_pair("LDG")

    def is_pair(self, kind):
        return re.fullmatch(kind + r"\.E(\.\w+)*\.128(\.\w+)*", self.name) and "STRONG" in self.name

    def written(self):
        """Registers of a load of 16 bytes."""
        first = int(REGISTER.search(self.operands)[1])
        return set(range(first, first + 4))

    def read(self):
        """Registers that an instruction names: for loads all but the first; pairs count as two."""
        names = list(REGISTER.finditer(self.operands))
        if self.name.startswith("LDG"):
            names = names[1:]
        width = 4 if ".128" in self.name else 1
        return {int(m[1]) + i for m in names for i in range(2 if m[2] else width)}

    def target(self):
        found = re.search(r"0x([0-9a-f]+)\s*$", self.operands.strip())
        return int(found[1], 16) if self.name.startswith("BRA") and found else None


@dataclass
class Code:
    instructions: list = field(default_factory=list)

    def of(self, *names):
        return [i for i in self.instructions if i.name.split(".")[0] in names]

    def pairs(self, kind):
        return sum(1 for i in self.instructions if i.is_pair(kind))

    def system_fences(self):
        """Instructions that wait until this thread's stores are visible to all devices and hosts: a
        fence, or the first half of a store with release."""
        return sum(1 for i in self.of("MEMBAR") if i.name.endswith(".SYS"))

    def loops(self):
        """Ranges from the target of a backward jump to the jump, small ones first."""
        spans = {(i.target(), i.at) for i in self.instructions
                 if i.target() is not None and i.target() < i.at}
        return [[i for i in self.instructions if begin <= i.at <= end]
                for begin, end in sorted(spans, key=lambda span: span[1] - span[0])]

    def inner_loop(self, is_load):
        """The loop with the maximum of such loads outside inner loops; [] if there is none."""
        seen, best, maximum = set(), [], 0
        for loop in self.loops():
            loads = {i.at for i in loop if is_load(i)} - seen
            seen |= loads
            if len(loads) > maximum:
                best, maximum = loop, len(loads)
        return best

    def in_flight(self, is_load):
        """The maximum number of consecutive loads without a use of a result or a jump between
        them."""
        targets = {i.target() for i in self.instructions} - {None}
        maximum, pending = 0, []
        for i in self.instructions:
            if i.at in targets or i.name.split(".")[0] in JUMPS:
                pending = []
            if any(i.read() & registers for registers in pending):
                pending = []
            if is_load(i):
                pending.append(i.written())
                maximum = max(maximum, len(pending))
        return maximum


def code_of(listing):
    """Kernels by their (mangled) names."""
    parts = re.split(r"\n\s*Function : ", listing)[1:]
    return {part.split("\n", 1)[0].strip():
            Code([Instruction(int(m[1], 16), m[2], m[3]) for m in INSTRUCTION.finditer(part)])
            for part in parts}


def no_local_memory(code):
    if code.of("LDL", "STL"):
        return f"uses local memory ({len(code.of('LDL', 'STL'))} times)"


def no_generic_access(code):
    """No generic accesses, except loads of arguments in functions that are not inlined."""
    if code.of("ST", "ATOM"):
        return "stores by generic addresses"
    if any(i.name.split(".")[0] == "LD" for i in code.inner_loop(Instruction.is_vector_load)):
        return "loads by generic addresses in its inner loop"


def whole_vectors(code):
    for kind in ("LDG", "STG"):
        if not any(re.match(kind + r"\.E(\.\w+)*\.128", i.name) and "STRONG" not in i.name
                   for i in code.instructions):
            return f"has no {kind} of 128 bits"


def whole_pairs(code):
    for kind in ("LDG", "STG"):
        if code.pairs(kind) == 0:
            return f"has no {kind} of pairs (.128)"
        for i in code.instructions:
            if i.is_pair(kind) and not i.name.endswith("STRONG.SYS"):
                return f"has {i.name} at {i.at:#x}, which is not STRONG.SYS"


def many_in_flight(code):
    found = code.in_flight(Instruction.is_vector_load)
    if found < MIN_IN_FLIGHT:
        return f"has {found} vectors in flight, not {MIN_IN_FLIGHT}"


def pairs_in_flight(minimum):
    def rule(code):
        found = code.in_flight(Instruction.is_pair_load)
        if found < minimum:
            return f"has {found} pairs in flight, not {minimum}"
    return rule


def few_fences(code):
    if code.system_fences() > MAX_SYSTEM_FENCES:
        return f"has {code.system_fences()} fences of the system, at most {MAX_SYSTEM_FENCES}"


def moves_vectors(name):
    return "Direct" in name or "Connected<" in name


# Kernels (by their readable names) and the rules for each.
RULES = (
    (lambda name: True, no_local_memory),
    (lambda name: True, no_generic_access),
    (moves_vectors, whole_vectors),
    (lambda name: name.startswith(LINES), whole_pairs),
    (lambda name: name.startswith(MANY_LOADS), many_in_flight),
    (lambda name: name.startswith(MEETS), few_fences),
    *((lambda name, of=of: name.startswith(of), pairs_in_flight(minimum))
      for of, minimum in PAIRS_IN_FLIGHT),
)


def findings(name, code):
    for concerns, rule in RULES:
        finding = rule(code) if concerns(name) else None
        if finding:
            yield f"{name} {finding}"


def planted(*lines):
    """A kernel that passes all rules, with `lines` before its end."""
    loads = [f"LDG.E.NA.128 R{4 * i + 8}, desc[UR6][R2.64+{i * 512:#x}]" for i in range(8)]
    stores = [f"STG.E.NA.128 desc[UR6][R4.64+{i * 512:#x}], R{4 * i + 8}" for i in range(8)]
    pairs = [f"LDG.E.128.STRONG.SYS R{4 * i + 8}, desc[UR6][R2.64]" for i in range(4)]
    text = [*loads, *stores, "@P0 BRA 0x0", *pairs,
            "STG.E.128.STRONG.SYS desc[UR6][R4.64], R8", *lines, "EXIT"]
    return text


def listing_of(text):
    return "\n\t\tFunction : kernel\n" + "".join(
        f"        /*{16 * i:04x}*/   {line} ;   /* 0x0 */\n" for i, line in enumerate(text))


def self_test():
    """Reports each rule that misses the fault planted for it."""
    def finding_of(text, name="Connected<CopyMath>"):
        return " ".join(findings(name, code_of(listing_of(text))["kernel"]))
    sound = planted()
    code = code_of(listing_of(sound))["kernel"]
    assert finding_of(sound) == "", finding_of(sound)
    assert code.in_flight(Instruction.is_vector_load) == 8
    assert code.in_flight(Instruction.is_pair_load) == 4
    assert len(code.inner_loop(Instruction.is_vector_load)) == 17
    used_early = sound[:3] + ["IADD3 R0, R9, 0x1, RZ"] + sound[3:]
    looked_at = [line for line in sound if not line.startswith("LDG.E.128.STRONG.SYS R16")]
    jumped_into = sound[:-1] + ["@P1 BRA 0x40", "EXIT"]
    scalar = [line.replace("NA.128", "NA.64") for line in sound]
    split = [line.replace("LDG.E.128.STRONG", "LDG.E.64.STRONG") for line in sound]
    for text, finding in (
            (planted("STL [R1], R8"), "local memory"),
            (planted("@!P2 LDL.64 R8, [R1+0x8]"), "local memory"),
            (planted("ST.E.64 desc[UR4][R2.64], R8"), "generic"),
            (sound[:2] + ["LD.E R0, desc[UR4][R4.64]"] + sound[2:], "generic"),
            (looked_at, "pairs in flight"), (used_early, "vectors in flight"),
            (jumped_into, "vectors in flight"),
            (scalar, "has no LDG of 128"), (split, "has no LDG of pairs"),
            (planted("LDG.E.128.STRONG.GPU R8, desc[UR6][R2.64]"), "not STRONG.SYS")):
        assert finding in finding_of(text), f"{finding} is not seen: {finding_of(text)}"
    assert "pairs in flight" in finding_of(sound, "LLPush<SumMath<float32>>")
    fences = ["MEMBAR.ALL.SYS"] * 2 + ["MEMBAR.SC.GPU", "CCTL.IVALL"]
    assert "fences" not in finding_of(planted(*fences), "StagedCopy")
    assert "3 fences" in finding_of(planted(*fences, "MEMBAR.SC.SYS"), "StagedCopy")
