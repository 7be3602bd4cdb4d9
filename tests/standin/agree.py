"""The stand-in's headers say what NVIDIA's say, wherever they say anything: prototypes, numbers, members.
   agree.py CC STANDIN_INCLUDE CUDA_INCLUDE...     exit 1 and a line for each difference; 77 where there are no headers to compare with
Prototypes are gcc's own rendering of them (-aux-info); numbers and members are asserted while compiling against NVIDIA's headers."""
import os
import re
import subprocess
import sys
import tempfile

HEADERS = ['cuda_runtime_api.h', 'cuda_profiler_api.h', 'cublasLt.h', 'nccl.h']
OURS = re.compile(r'^(cuda[A-Z]\w*|cublasLt\w+|nccl\w+|nvtx\w+)$')


def compile_with(cc, includes, source, *options):
    command = [cc, '-std=c11', '-fsyntax-only', *options, *[f'-I{i}' for i in includes], source]
    return subprocess.run(command, capture_output=True, text=True)


def prototypes(cc, includes, headers, folder):
    source, out = os.path.join(folder, 'prototypes.c'), os.path.join(folder, 'prototypes.txt')
    with open(source, 'w') as f:
        f.write(''.join(f'#include <{h}>\n' for h in headers))
    done = compile_with(cc, includes, source, '-aux-info', out)
    if done.returncode:
        sys.exit(f'{headers} do not compile:\n{done.stderr}')
    found = {}
    for line in open(out):
        line = re.sub(r'/\*.*?\*/', '', line).strip()
        match = re.match(r'(?:extern|static) (.*?)(\w+) \((.*)\);$', line)
        if match:
            # names of the same type: the C name of an enum and its typedef, and arrays that are pointers
            text = f'{match[1]}({match[3] or "void"})'.replace('cudaDataType_t', 'cudaDataType').replace('enum cudaError', 'cudaError_t')
            found[match[2]] = re.sub(r'\s+', ' ', text)
    return found


def words_of(folder):
    """The enumerators, macros with a number, and (struct, member) that the headers in folder define."""
    numbers, members = set(), set()
    for root, _, files in os.walk(folder):
        for name in files:
            if name == 'cuda_runtime.h':
                continue
            text = re.sub(r'/\*.*?\*/', '', open(os.path.join(root, name)).read(), flags=re.S)
            numbers |= set(re.findall(r'\b((?:cuda|CUDA|CUBLAS|nccl)\w+)\s*=', text)) | set(re.findall(r'^X\((\w+),', text, flags=re.M))
            numbers |= set(re.findall(r'^#define ((?:cuda|CUDA|CUBLAS|NCCL)\w+) -?[0-9(]', text, flags=re.M))
            for struct, body in re.findall(r'^struct (cuda\w+) \{(.*?)^\};', text, flags=re.S | re.M):
                members |= {(f'struct {struct}', m) for m in re.findall(r'(\w+)(?:\[\d+\])?;', body)}
            for body, struct in re.findall(r'^typedef struct \w* ?\{\n(.*?)^\} (\w+);', text, flags=re.S | re.M):
                members |= {(struct, m) for m in re.findall(r'(\w+)(?:\[\d+\])?;', body)}
    return sorted(n for n in numbers if n != 'cudaStreamLegacy'), sorted(members)


def values(cc, include, headers, numbers, members, folder):
    source, program = os.path.join(folder, 'values.c'), os.path.join(folder, 'values')
    with open(source, 'w') as f:
        f.write('#include <stdio.h>\n' + ''.join(f'#include <{h}>\n' for h in headers) + 'int main(void) {\n')
        f.writelines(f'    printf("%lld\\n", (long long)({n}));\n' for n in numbers)
        f.writelines(f'    printf("%zu\\n", sizeof((({s} *)0)->{m}));\n' for s, m in members)
        f.write('}\n')
    subprocess.run([cc, '-std=c11', f'-I{include}', source, '-o', program], check=True)
    return [int(v) for v in subprocess.run([program], check=True, capture_output=True, text=True).stdout.split()]


def main():
    cc, standin, real = sys.argv[1], sys.argv[2], [i for i in sys.argv[3:] if os.path.isdir(i)]
    headers = [h for h in HEADERS if any(os.path.exists(os.path.join(i, h)) for i in real)]
    if 'cuda_runtime_api.h' not in headers:
        print("no CUDA toolkit to compare with")
        sys.exit(77)
    differences = []
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = prototypes(cc, [standin], headers, folder), prototypes(cc, real, headers, folder)
        for name in sorted(n for n in ours if OURS.match(n)):
            if ours[name] != theirs.get(name):
                differences.append(f'{name}: {ours[name]}, not {theirs.get(name, "there")}')
        numbers, members = words_of(standin)
        if 'nccl.h' not in headers:
            numbers, members = [n for n in numbers if not n.lower().startswith('nccl')], [m for m in members if not m[0].startswith('nccl')]
        what = numbers + [f'the size of {s}.{m}' for s, m in members]
        wanted = values(cc, standin, headers, numbers, members, folder)
        source = os.path.join(folder, 'assert.c')
        with open(source, 'w') as f:
            f.write(''.join(f'#include <{h}>\n' for h in headers))
            f.writelines(f'_Static_assert((long long)({n}) == {v}, "{n}");\n' for n, v in zip(numbers, wanted))
            f.writelines(f'_Static_assert(sizeof((({s} *)0)->{m}) == {v}, "{s}.{m}");\n' for (s, m), v in zip(members, wanted[len(numbers):]))
        done = compile_with(cc, real, source)
        differences += [line for line in done.stderr.splitlines() if ' error: ' in line]
        if done.returncode and not differences:
            differences.append(done.stderr)
        checked = len([n for n in ours if OURS.match(n)])
        print(f'{checked} functions, {len(what)} numbers and members compared, {len(differences)} differ')
    print('\n'.join(differences))
    sys.exit(1 if differences else 0)


main()
