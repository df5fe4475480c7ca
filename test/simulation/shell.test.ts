// Real bash against what decide() makes of its programs. Bash is told where programs are by PATH alone: they are recorders in a temporary
// folder, and the folder it stands in has programs of the same names, which nobody allowed.
import { compilePolicy, decide } from '@anchorhold/core/policy/decide'
import { bash, onCommand, policyOf } from '@anchorhold/core/policy/test-policy'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'
import { seeded } from '../seeded.ts'
import { countOf, firstSeed } from './schedule.ts'
import { shellProgram } from './shell-programs.ts'

const allowed = [
  ...['git status *', 'git log *', 'ls *', 'cat *', 'echo *', 'printf *', 'test *', '[ *', 'read *', 'cd *', 'make', 'npm run *'],
  ...[
    'true',
    'env *',
    'timeout *',
    'nice *',
    'xargs *',
    'find *',
    'bash -c *',
    'sh -c *',
    'command *',
    'sort *',
    'export *',
    'set *',
  ],
  // Not even an allowance of these lets them change what later words mean.
  ...[
    'eval *',
    'source *',
    '. *',
    'alias *',
    'hash *',
    'enable *',
    'trap *',
    'exec *',
    'declare *',
    'let *',
    'unset *',
    'shopt *',
  ],
  ...['local *', 'typeset *', 'readonly *', 'mapfile *', 'getopts *', 'builtin *', 'sed *', 'awk *', './run *'],
]
/** Programs that run what they are given, as they do. */
const real = ['env', 'timeout', 'nice', 'xargs', 'find', 'bash', 'sh', 'sort', 'sed', 'awk']
const recorded = ['git', 'ls', 'cat', 'make', 'npm', 'rm', 'curl']
const folder = mkdtempSync(join(tmpdir(), 'shell-'))
const [bin, workspace, record] = [join(folder, 'bin'), join(folder, 'workspace'), join(folder, 'record')]
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Bash that writes down by which path a program was run and with which words, in a file of its own: others run beside it, and Bash writes line by line. */
const recording = `builtin printf '%s\\0' "$0" "$@" $'\\1' >>'${record}'/$$`
/** What it prints is as bad as it can be for what reads it. */
const recorder = (then: string) => `#!/bin/bash -p\nPATH=/usr/bin:/bin\n${recording}\n${then}\n`
function program(path: string, then: string): void {
  writeFileSync(path, recorder(then))
  chmodSync(path, 0o755)
}

mkdirSync(bin)
for (const name of recorded) program(join(bin, name), `echo 'PATH=1 ./git 1/git a[PATH=1]'`)
// They find programs by the PATH that they were given, which the recorder's own must not replace.
for (const name of real) {
  writeFileSync(join(bin, name), `#!/bin/bash -p\n${recording}\nexec /usr/bin/${name} "$@"\n`)
  chmodSync(join(bin, name), 0o755)
}
mkdirSync(workspace)
for (const place of ['.', '0', '1', '2', 'sub', 'sub/1']) {
  mkdirSync(join(workspace, place), { recursive: true })
  for (const name of [...recorded, ...real, 'run', 'x']) program(join(workspace, place, name), 'true')
}
writeFileSync(join(workspace, 'words'), 'PATH=1\n-exec\n./git\n')
writeFileSync(join(workspace, 'script'), 'PATH=1\n')
const before = readdirSync(workspace).toSorted().join()

type Run = { readonly path: string; readonly words: readonly string[] }
/** Every program that bash ran for a text. */
function runsOf(text: string): readonly Run[] {
  rmSync(record, { recursive: true, force: true })
  mkdirSync(record)
  spawnSync('/bin/bash', ['--norc', '--noprofile', '-c', text], {
    cwd: workspace,
    env: { PATH: bin, HOME: workspace },
    // The last is held by all that it starts, so that what runs in the background is waited for.
    stdio: ['ignore', 'ignore', 'ignore', 'pipe'],
    timeout: 5000,
    killSignal: 'SIGKILL',
  })
  const ofOneProcess = (name: string) => readFileSync(join(record, name), 'utf8').split('\u0001\0').slice(0, -1)
  return readdirSync(record)
    .flatMap(ofOneProcess)
    .map((one) => {
      const [path = '', ...words] = one.split('\0').slice(0, -1)
      return { path, words }
    })
}

/** By other means than decide() has: a program in its own place, and words that begin as an allowance does. */
function isAllowed({ path, words }: Run): boolean {
  if (path === './run' || path === `${workspace}/run`) return true
  const name = path.startsWith(`${bin}/`) ? path.slice(bin.length + 1) : null
  if (name === null || name.includes('/')) return false
  return allowed.some((rule) => {
    const [program, ...pattern] = rule.split(' ')
    const open = pattern.at(-1) === '*'
    const fixed = open ? pattern.slice(0, -1) : pattern
    return program === name && fixed.every((word, at) => words[at] === word) && (open || words.length === fixed.length)
  })
}

const count = countOf(10_000)
test(`of ${count} programs for bash none runs what no rule allows where decide() allows it`, { timeout: 900_000 }, () => {
  const policy = compilePolicy(policyOf(allowed.map((rule) => onCommand('allow', rule))))
  let allowances = 0
  for (let seed = firstSeed; seed < firstSeed + count; seed++) {
    const text = shellProgram(seeded(seed))
    if (decide(policy, bash(text)).effect !== 'allow') continue
    allowances++
    const bad = runsOf(text).filter((run) => !isAllowed(run))
    expect(bad, `Run it alone: SCHEDULES=1 SCHEDULE_SEED=${seed}\n${text}`).toEqual([])
  }
  expect(readdirSync(workspace).toSorted().join(), 'files that the shell wrote').toBe(before)
  // It must have something to say.
  if (count >= 100) expect(allowances / count).toBeGreaterThan(0.2)
})
