import type { Action } from '@anchorhold/protocol/actions'
import type { Effect, Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { compilePolicy, decide } from './decide.ts'
import { explain } from './explain.ts'
import { plainMeaning } from './meaning.ts'
import { bash, onCommand, policyOf } from './test-policy.ts'
import { toolMeaning } from './tool-meaning.ts'

const tool = (name: string, input: Record<string, unknown> = {}) => toolMeaning({ kind: 'tool', tool: name, input })
const net = (host: string, method: string | null = 'GET', path: string | null = '/', port = 443): Action => ({
  kind: 'net',
  host,
  port,
  method,
  path,
})
const onNet = (effect: Effect, match: Extract<Rule, { on: 'net' }>['match']): Rule => ({ on: 'net', match, effect })

test.each([
  ['full', 'allow'],
  ['supervised', 'ask'],
  ['restricted', 'ask'],
  ['read_only', 'deny'],
] as const)('decide() leaves a tool that no rule covers to autonomy %s', (autonomy, effect) => {
  expect(decide(compilePolicy(policyOf([], { autonomy })), tool('Read', { file_path: '/workspace/a' })).effect).toBe(effect)
})

test.each([
  ['restricted', 'allow', 'ask'],
  ['restricted', 'deny', 'deny'],
  ['read_only', 'allow', 'deny'],
] as const)('decide() under autonomy %s makes %s into %s', (autonomy, effect, expected) => {
  const compiled = compilePolicy(policyOf([{ on: 'tool', match: { tool: 'Read' }, effect }], { autonomy }))
  expect(decide(compiled, tool('Read')).effect).toBe(expected)
})

test('decide() asks for net and host without a rule, and leaves spending to the ledger', () => {
  for (const autonomy of ['full', 'read_only'] as const) {
    const compiled = compilePolicy(policyOf([], { autonomy }))
    expect(decide(compiled, plainMeaning(net('example.org'))).effect).toBe('ask')
    expect(decide(compiled, plainMeaning({ kind: 'host', program: 'x', params: {} })).effect).toBe('ask')
    const spend: Action = { kind: 'spend', model: 'm', needed_nanos: 1, left_nanos: 1, budget_nanos: 1 }
    expect(decide(compiled, plainMeaning(spend)).effect).toBe('allow')
  }
})

test.each([
  ['example.org', { host: 'example.org' }, 'allow'],
  ['EXAMPLE.org.', { host: 'example.org' }, 'allow'],
  ['a.example.org', { host: 'example.org' }, 'ask'],
  ['a.example.org', { host: '.example.org' }, 'allow'],
  ['example.org', { host: '.example.org' }, 'allow'],
  ['a.example.org', { host: '*.example.org' }, 'allow'],
  ['a.b.example.org', { host: '*.Example.org' }, 'allow'],
  ['badexample.org', { host: '*.example.org' }, 'ask'],
  ['badexample.org', { host: '.example.org' }, 'ask'],
  ['example.org.evil.net', { host: '.example.org' }, 'ask'],
  ['anything', { host: '*' }, 'allow'],
  ['[::1]', { host: '::1' }, 'allow'],
  ['example.org', { host: 'example.org', port: 80 }, 'ask'],
  ['example.org', { host: 'example.org', method: ['get', 'HEAD'] }, 'allow'],
  ['example.org', { host: 'example.org', method: 'POST' }, 'ask'],
  ['example.org', { host: 'example.org', path: '/other/*' }, 'ask'],
] as const)('decide() on %s with an allowance for %j', (host, match, effect) => {
  const compiled = compilePolicy(policyOf([onNet('allow', match as never)]))
  expect(decide(compiled, plainMeaning(net(host))).effect).toBe(effect)
})

test.each([
  ['/public/a', 'allow'],
  ['/public/a?x=/../../secret', 'allow'],
  ['/public/../secret', 'deny'],
  ['/public/%2e%2e/secret', 'deny'],
  ['/public/%252e%252e/secret', 'deny'],
  ['/public/..%2fsecret', 'deny'],
  ['/public/%2e%2e/secret/%ff', 'deny'],
  ['/public/%ff/%2e%2e/%2e%2e/secret', 'deny'],
  ['/public\\..\\..\\secret', 'deny'],
  ['//secret', 'deny'],
  ['/secre%74', 'deny'],
  ['/public/../other', 'ask'],
] as const)('decide() reads the path %s in every way a server may', (path, effect) => {
  const rules = [onNet('allow', { host: 'a.org', path: '/public/*' }), onNet('deny', { host: 'a.org', path: '/secret*' })]
  expect(decide(compilePolicy(policyOf(rules)), plainMeaning(net('a.org', 'GET', path))).effect).toBe(effect)
})

test('decide() asks where a connection that is not opened might be what a rule denies', () => {
  const rules = [onNet('allow', { host: 'a.org' }), onNet('deny', { host: 'a.org', method: 'DELETE' })]
  const compiled = compilePolicy(policyOf(rules))
  expect(decide(compiled, plainMeaning(net('a.org', null, null)))).toMatchObject({ effect: 'ask', decider: 'maybe', rule: 1 })
  expect(decide(compiled, plainMeaning(net('a.org', 'GET')))).toMatchObject({ effect: 'allow', rule: 0 })
})

test('decide() compares a host command by program and parameters', () => {
  const rules: Rule[] = [
    { on: 'host', match: { program: 'deploy', params: { env: 'staging' } }, effect: 'allow' },
    { on: 'host', match: { program: 'de*', params: { force: 'true' } }, effect: 'deny' },
  ]
  const run = (params: Record<string, string | boolean>) =>
    decide(compilePolicy(policyOf(rules)), plainMeaning({ kind: 'host', program: 'deploy', params })).effect
  expect([run({ env: 'staging' }), run({ env: 'production' }), run({ env: 'staging', force: true }), run({})]).toEqual([
    'allow',
    'ask',
    'deny',
    'ask',
  ])
})

test('decide() compares spending by provider, model and price', () => {
  const rules: Rule[] = [
    { on: 'spend', match: { model: 'claude-opus-*' }, effect: 'deny' },
    { on: 'spend', match: { above_nanos: 1000 }, effect: 'ask', why: 'dear' },
    { on: 'spend', match: { provider: 'openrouter' }, effect: 'deny' },
  ]
  const run = (model: string, needed_nanos: number, provider?: string) =>
    decide(
      compilePolicy(policyOf(rules)),
      plainMeaning({
        kind: 'spend',
        model,
        needed_nanos,
        left_nanos: 1,
        budget_nanos: 1,
        ...(provider === undefined ? {} : { provider }),
      }),
    ).effect
  expect([
    run('claude-opus-5', 1, 'anthropic'),
    run('claude-haiku', 1000, 'anthropic'),
    run('claude-haiku', 1001, 'anthropic'),
    run('x', 1),
  ]).toEqual(['deny', 'allow', 'ask', 'ask'])
})

test('decide() compares paths from the root and within the workspace, with dots resolved', () => {
  const rules: Rule[] = [
    { on: 'tool', match: { tool: 'Edit', path: 'src/*' }, effect: 'allow' },
    { on: 'tool', match: { path: '/etc/*' }, effect: 'deny' },
    { on: 'tool', match: { path: 'secrets/*' }, effect: 'deny' },
    { on: 'tool', match: { tool: 'Grep' }, effect: 'allow' },
  ]
  const edit = (file_path: string) => decide(compilePolicy(policyOf(rules)), tool('Edit', { file_path })).effect
  expect(
    [
      '/workspace/src/a.ts',
      'src/a.ts',
      '/workspace/src/../b.ts',
      '/workspace/../etc/passwd',
      '/workspace//src/./a',
      '/workspace/src/../secrets/a',
    ].map(edit),
  ).toEqual(['allow', 'allow', 'ask', 'deny', 'allow', 'deny'])
  const grep = (path?: string) =>
    decide(compilePolicy(policyOf(rules)), tool('Grep', { pattern: 'x', ...(path === undefined ? {} : { path }) })).effect
  expect([grep(), grep('/workspace/src'), grep('/workspace/secrets'), grep('/')]).toEqual(['ask', 'allow', 'deny', 'ask'])
})

test('decide() compares fields of the input, and only those that are its own', () => {
  const compiled = compilePolicy(
    policyOf([
      { on: 'tool', match: { tool: 'WebFetch', input: { url: 'https://a.org/*' } }, effect: 'allow' },
      { on: 'tool', match: { input: { constructor: '*' } }, effect: 'deny' },
    ]),
  )
  expect(decide(compiled, tool('WebFetch', { url: 'https://a.org/x' })).effect).toBe('allow')
  expect(decide(compiled, tool('WebFetch', { url: ['https://a.org/x'] })).effect).toBe('ask')
  expect(decide(compiled, tool('constructor')).effect).toBe('ask')
})

test('decide() denies a tool that any list of allowed tools leaves out', () => {
  const compiled = compilePolicy(
    policyOf([{ on: 'tool', match: { tool: 'mcp__*' }, effect: 'allow' }], {
      tools: [
        ['Read', 'mcp__*', 'Task'],
        ['Read', 'mcp__a__*', 'Agent'],
      ],
    }),
  )
  const run = (name: string) => decide(compiled, tool(name))
  expect([run('Read').effect, run('mcp__a__x').effect, run('mcp__b__x').effect, run('Bash').effect, run('Agent').effect]).toEqual(
    ['ask', 'allow', 'deny', 'deny', 'ask'],
  )
  expect(run('Bash').by).toBe('allowed_tools: "Bash" is not among them')
})

test('decide() names the rule, its reason and the command that decided', () => {
  const rules = [onCommand('allow', 'ls *'), { ...onCommand('deny', 'git push *'), why: 'releases go\u202e elsewhere' }]
  expect(decide(compilePolicy(policyOf(rules)), bash('ls && git push'))).toEqual({
    effect: 'deny',
    decider: 'rule',
    rule: 1,
    by: 'rule: deny Bash "git push *" (releases go\\u{202e} elsewhere)',
    command: 'git push',
  })
})

test('explain() shows every rule that speaks of it, which won, and what would change it', () => {
  const rules = [onCommand('allow', 'git *'), onCommand('ask', 'git push *'), onCommand('allow', 'ls *')]
  const asked = explain(compilePolicy(policyOf(rules)), bash('git push && ls'))
  expect(asked.decision).toMatchObject({ effect: 'ask', rule: 1 })
  expect(asked.parts).toEqual([
    {
      command: 'git push',
      matches: [
        { rule: 0, effect: 'allow', maybe: false, decides: false },
        { rule: 1, effect: 'ask', maybe: false, decides: true },
      ],
    },
    { command: 'ls', matches: [{ rule: 2, effect: 'allow', maybe: false, decides: false }] },
  ])
  expect(asked.change[0]).toContain('which no allowance outweighs: ask Bash "git push *"')
  expect(explain(compilePolicy(policyOf(rules)), bash('make')).change).toContain('Autonomy full for the session')
  expect(explain(compilePolicy(policyOf([], { autonomy: 'read_only' })), bash('make')).change).toEqual([
    'Another autonomy than read_only for the session',
  ])
})

test.each([
  [443, {}, 'allow', 'allow'],
  [80, {}, 'allow', 'allow'],
  [22, {}, 'allow', 'ask'],
  [8443, {}, 'allow', 'ask'],
  [8443, { port: 8443 }, 'allow', 'allow'],
  [443, { port: 8443 }, 'allow', 'ask'],
  // What is stricter holds for every port that it does not leave out.
  [443, {}, 'deny', 'deny'],
  [22, {}, 'deny', 'deny'],
  [8443, {}, 'deny', 'deny'],
] as const)('decide() on port %i, by a rule with %j that says %s, is to %s', (port, match, effect, expected) => {
  for (const host of ['example.org', '.org', '*']) {
    const compiled = compilePolicy(policyOf([onNet(effect, { host, ...match })]))
    expect(decide(compiled, plainMeaning(net('example.org', 'GET', '/', port))).effect).toBe(expected)
  }
})

test.each([
  ['/admin;x=1/users', {}, 'deny'],
  ['/admin;/users', {}, 'deny'],
  ['/;x/admin/users', {}, 'deny'],
  ['/admin%3Bx=1/users', {}, 'deny'],
  ['/a;b/%61dmin;x=y;z/users', {}, 'allow'],
  ['/Admin/users', {}, 'allow'],
  ['/Admin/users', { any_case: true }, 'deny'],
  ['/ADMIN;x/users', { any_case: true }, 'deny'],
  ['/%41dmin/users', { any_case: true }, 'deny'],
  ['/public/users', { any_case: true }, 'allow'],
] as const)('decide() on %s, by a denial of /admin/* with %j, is to %s', (path, match, expected) => {
  const rules = [onNet('allow', { host: 'a.org' }), onNet('deny', { host: 'a.org', path: '/admin/*', ...match })]
  expect(decide(compilePolicy(policyOf(rules)), plainMeaning(net('a.org', 'GET', path))).effect).toBe(expected)
})

test('decide() lets an allowance of a path hold only where it fits however the parameters in it are read', () => {
  const compiled = compilePolicy(policyOf([onNet('allow', { host: 'a.org', path: '/public;v=1/*' })]))
  expect(decide(compiled, plainMeaning(net('a.org', 'GET', '/public;v=1/x'))).effect).toBe('ask')
  const any = compilePolicy(policyOf([onNet('allow', { host: 'a.org', path: '/Public/*', any_case: true })]))
  expect(decide(any, plainMeaning(net('a.org', 'GET', '/pUBLIC/x'))).effect).toBe('allow')
})

test('decide() is not slow with the longest path, and the worst globs for it', () => {
  const worst = `${'*a'.repeat(240)}*b`
  const compiled = compilePolicy(policyOf([onNet('deny', { host: 'a.org', path: worst, any_case: true })]))
  for (const path of [`/${'a'.repeat(8191)}`, `/${'%61'.repeat(2700)}`, `/${';a/'.repeat(2700)}`, `/${'%25'.repeat(2700)}`])
    expect(decide(compiled, plainMeaning(net('a.org', 'GET', path))).effect).toBe('ask')
})
