import type { Rule } from '@anchorhold/protocol/policy'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Policies, policies } from './policies.ts'

let root: string
let opened: Policies[]
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'ah-policies-'))
  mkdirSync(join(root, 'config'))
  opened = []
})
afterEach(() => {
  for (const one of opened) one.close()
  rmSync(root, { recursive: true })
})

const log = vi.fn()
const open = () => {
  const made = policies({ folder: join(root, 'config'), memory: join(root, 'memory'), log })
  opened.push(made)
  return made
}
const write = (text: string, file = 'policy.yaml') => {
  mkdirSync(join(root, 'config/policies'), { recursive: true })
  writeFileSync(join(root, 'config', file), text)
}
const rule: Rule = { on: 'tool', match: { tool: 'Bash', command: 'git push *' }, effect: 'allow' }

test('policies() without files say nothing', () => {
  const all = open()
  expect(all.house()).toMatchObject({ inForce: 'current', settings: { rules: [], autonomy: null } })
  expect(all.list()).toHaveLength(1)
  expect(all.named('x')).toBe(null)
})

test('policies() keep the last good one in force, also over a restart', () => {
  write('default_autonomy: restricted\n')
  const all = open()
  const heard = vi.fn()
  all.onChange(heard)
  write('default_autonomy: fulll\n')
  all.reload()
  expect(all.house()).toMatchObject({
    inForce: 'last good',
    settings: { autonomy: 'restricted' },
    problems: [{ line: 1, column: 19 }],
  })
  // Nothing that is in force has changed but that there is something to say about it.
  expect(heard).toHaveBeenCalledTimes(1)
  expect(open().house()).toMatchObject({ inForce: 'last good', settings: { autonomy: 'restricted' } })
  write('default_autonomy: supervised\n')
  all.reload()
  expect(all.house()).toMatchObject({ inForce: 'current', settings: { autonomy: 'supervised' }, problems: [] })
  // Whoever keeps the log of the house hears which one it was, and by what it can be told from others.
  const digests = heard.mock.calls.map(([[change, ...others]]) => {
    expect({ file: change.file, others }).toEqual({ file: 'policy.yaml', others: [] })
    return change.sha256
  })
  expect(new Set(digests).size).toBe(2)
})

test.each([
  ['emptied', () => write('')],
  ['gone', () => rmSync(join(root, 'config/policy.yaml'))],
])('policies() keep the house under what it said when its file is %s, until somebody says that this is meant', (_, empty) => {
  write('default_autonomy: restricted\n')
  const all = open()
  empty()
  all.look()
  const kept = { inForce: 'last good', settings: { autonomy: 'restricted' } }
  expect(all.house()).toMatchObject({ ...kept, problems: [{ message: expect.stringContaining('policy reload') }] })
  // Nor is a rule added to nothing, which would be all that is left.
  expect(() => all.addRule(rule, { actor: 'ann', door: 'cli' })).toThrow('empty or gone')
  // What comes then and cannot be used changes nothing either, nor does a restart.
  write('default_autonomy: fulll\n')
  all.look()
  expect(all.house()).toMatchObject(kept)
  empty()
  expect(open().house()).toMatchObject(kept)
  all.reload()
  expect(all.house()).toMatchObject({ inForce: 'current', settings: { autonomy: null } })
})

test('policies() take what they cannot keep a copy of, and tell everybody although one cannot hear it', () => {
  write('max_concurrent: 1\n')
  const all = open()
  mkdirSync(join(root, 'memory', `.policy.yaml.${process.pid}.new`))
  const heard = vi.fn()
  all.onChange(() => {
    throw new Error('no room')
  })
  all.onChange(heard)
  write('max_concurrent: 2\n')
  expect(() => all.reload()).not.toThrow()
  expect(all.house().settings.maxConcurrent).toBe(2)
  expect(heard).toHaveBeenCalledOnce()
})

test('policies() allow nothing where a file can not be used and never could', () => {
  write('nonsense: 1\n')
  const { inForce, settings } = open().house()
  expect(inForce).toBe('locked')
  expect(settings.rules.map(({ rule: { on, effect } }) => `${on} ${effect}`)).toEqual([
    'tool deny',
    'net deny',
    'host deny',
    'spend deny',
  ])
})

test.each([
  ['a folder', (path: string) => mkdirSync(path), 'It is no file'],
  ['a file that is too large', (path: string) => writeFileSync(path, 'x'.repeat(256 * 1024 + 1)), 'larger than 256 KiB'],
  ['a link into nothing', (path: string) => symlinkSync('/dev/zero', path), 'It is no file'],
])('policies() are not held up by %s', (_, make, message) => {
  make(join(root, 'config/policy.yaml'))
  expect(open().house().problems[0]?.message).toContain(message)
})

test('policies() hold those who were given one that was taken away since, and give it to nobody else', () => {
  write('default_autonomy: restricted\n', 'policies/ci.yaml')
  write('', 'policies/Bad Name.yaml')
  const all = open()
  expect(all.list().map(({ name }) => name)).toEqual([null, 'ci'])
  rmSync(join(root, 'config/policies/ci.yaml'))
  all.reload()
  expect(all.list()).toHaveLength(1)
  expect(all.named('ci')).toMatchObject({ inForce: 'gone', settings: { autonomy: 'restricted' } })
  expect(open().named('ci')).toMatchObject({ inForce: 'gone', settings: { autonomy: 'restricted' } })
})

test('policies() see a change by themselves, however the file is written, and each only once', async () => {
  const all = open()
  const next = () => {
    const { promise, resolve } = Promise.withResolvers<void>()
    const end = all.onChange(() => {
      end()
      resolve()
    })
    return promise
  }
  let changed = next()
  write('max_concurrent: 1\n')
  await changed
  expect(all.house().settings.maxConcurrent).toBe(1)
  changed = next()
  writeFileSync(join(root, 'config/other'), 'max_concurrent: 2\n')
  renameSync(join(root, 'config/other'), join(root, 'config/policy.yaml'))
  await changed
  expect(all.house().settings.maxConcurrent).toBe(2)
  changed = next()
  write('max_concurrent: 3\n', 'policies/ci.yaml')
  await changed
  expect(all.named('ci')?.settings.maxConcurrent).toBe(3)
  // Another folder in its place is watched as it was.
  changed = next()
  mkdirSync(join(root, 'config/new'))
  writeFileSync(join(root, 'config/new/ci.yaml'), 'max_concurrent: 4\n')
  renameSync(join(root, 'config/policies'), join(root, 'config/old'))
  renameSync(join(root, 'config/new'), join(root, 'config/policies'))
  await changed
  expect(all.named('ci')?.settings.maxConcurrent).toBe(4)
  changed = next()
  write('max_concurrent: 5\n', 'policies/ci.yaml')
  await changed
  expect(all.named('ci')?.settings.maxConcurrent).toBe(5)
  const { version } = all
  all.reload()
  expect(all.version).toBe(version)
})

const author = { actor: 'ann', door: 'cli' }

test('addRule() tells who has changed the policy', () => {
  const all = open()
  const told: unknown[] = []
  all.onChange((changed, by) => told.push([changed.map(({ file }) => file), by]))
  all.addRule(rule, author)()
  expect(told).toEqual([[['policy.yaml'], author]])
})

test('addRule() adds to the end and keeps every comment', () => {
  write(
    '# the house\nmax_concurrent: 2 # few\n\nrules:\n  # none\n  - { on: tool, match: { tool: WebFetch }, effect: deny } # never\n\n# the end\n',
  )
  const all = open()
  all.addRule({ ...rule, why: 'a: "b" # c' }, author)()
  expect(readFileSync(join(root, 'config/policy.yaml'), 'utf8')).toBe(`# the house
max_concurrent: 2 # few

rules:
  # none
  - { on: tool, match: { tool: WebFetch }, effect: deny } # never
  - on: tool
    match:
      tool: Bash
      command: git push *
    effect: allow
    why: 'a: "b" # c'

# the end
`)
  expect(all.house().settings.rules.at(-1)?.rule).toEqual({ ...rule, why: 'a: "b" # c' })
  expect(readdirSync(join(root, 'config')).toSorted()).toEqual(['policies', 'policy.yaml'])
})

test.each(['', '# only this\n', 'rules: []\n', 'rules:\n', 'max_concurrent: 1\n', '{ max_concurrent: 1 }\n'])(
  'addRule() adds to %j',
  (text) => {
    write(text)
    const all = open()
    all.addRule(rule, author)()
    all.addRule({ on: 'spend', match: { above_nanos: 1_500_000_000 }, effect: 'ask' }, author)()
    expect(all.house().settings.rules.map(({ rule }) => rule)).toEqual([
      rule,
      { on: 'spend', match: { above_nanos: 1_500_000_000 }, effect: 'ask' },
    ])
  },
)

test('addRule() makes the file where there is none, and touches none that can not be used', () => {
  const all = open()
  all.addRule(rule, author)()
  expect(all.house().settings.rules).toHaveLength(1)
  write('rules: [\n')
  expect(() => all.addRule(rule, author)).toThrow('Cannot add a rule')
  expect(readFileSync(join(root, 'config/policy.yaml'), 'utf8')).toBe('rules: [\n')
  write('mounts:\n  /claude:\n    policy: {}\n')
  expect(() => all.addRule(rule, author)).toThrow('Cannot add a rule')
  expect(existsSync(join(root, 'config/.policy.yaml.new'))).toBe(false)
})

test('what a named policy allows in vain is told, with both lines, and what it narrows is not', () => {
  const net = (effect: string, host: string) => `  - { on: net, match: { host: ${host} }, effect: ${effect} }\n`
  write(`rules:\n${net('deny', 'a.org')}${net('allow', 'b.org')}`)
  write(`rules:\n${net('deny', 'b.org')}${net('allow', 'a.org')}`, 'policies/ci.yaml')
  const all = open()
  const problems = () => all.list().flatMap((one) => one.problems)
  expect(problems()).toEqual([
    {
      file: 'policies/ci.yaml',
      line: 3,
      column: 1,
      level: 'warning',
      message: '"allow net a.org" is void: line 2 of policy.yaml has "deny net a.org"',
    },
  ])
  write('')
  all.reload()
  expect(problems()).toEqual([])
})
