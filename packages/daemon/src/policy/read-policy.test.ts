import { ruleWords } from '@anchorhold/core/policy/rule-words'
import { expect, test } from 'vitest'
import { readPolicy } from './read-policy.ts'

const read = (text: string) => readPolicy('policy.yaml', text)
const settings = (text: string) => {
  const { settings, problems } = read(text)
  expect(problems).toEqual([])
  return settings!
}
const problems = (text: string) =>
  read(text).problems.map(({ line, column, level, message }) => `${line}:${column} ${level} ${message}`)

test('readPolicy() takes every field of the seed, and ours', () => {
  const { rules, ...rest } = settings(`
allowed_providers: [anthropic]
allowed_models: ["claude-sonnet-*"]
blocked_models: ["claude-opus-*"]
allowed_tools: [Read, Bash]
blocked_tools: [WebFetch]
approval_required_tools: [Bash]
max_cost_usd_per_tick: 1000000
max_cost_usd_per_day: "$100"
default_max_cost_usd: 5000000
require_max_cost: false
max_concurrent: 2
max_context_tokens: 200000
default_autonomy: supervised
require_idempotency: true
allowed_tunnels: []
isolation_mode: gvisor
network_mode: proxy_only
repo_filter: strict
proxy_allowlist: [api.anthropic.com, "*.example.org"]
budget:
  per_tick_usd: "$0.50"
  per_day_micros: 200000000
  approval_threshold_usd: 10000000
  approvers: [alice]
rules:
  - { on: tool, match: { tool: Bash, command: git push * }, effect: deny, why: no }
  - on: spend
    match: { above: "$2" }
    effect: ask
breakers: { repeats: 3, turns: null }
rates: { requests_per_minute: 10, tokens_per_minute: 1000 }
park_after_seconds: 60
request_hours: 2
grant_hours: 0.5
tick_seconds: 600
`)
  expect(rest).toEqual({
    file: 'policy.yaml',
    tools: ['Read', 'Bash'],
    models: { allowed: ['claude-sonnet-*'], blocked: ['claude-opus-*'] },
    providers: ['anthropic'],
    autonomy: 'supervised',
    maxContextTokens: 200_000,
    breakers: { repeats: 3, turns: null },
    parkAfterMs: 60_000,
    requestMs: 7_200_000,
    grantMs: 1_800_000,
    rung: 'gvisor',
    repoFilter: 'strict',
    network: 'proxy_only',
    maxConcurrent: 2,
    requireIdempotency: true,
    money: {
      perTickNanos: 500_000_000,
      perDayNanos: 100_000_000_000,
      approvalThresholdNanos: 10_000_000_000,
      approvers: ['alice'],
      defaultMaxCostNanos: 5_000_000_000,
      requireMaxCost: false,
      tickMs: 600_000,
    },
    rates: { requestsPerMinute: 10, tokensPerMinute: 1000 },
    disabledAt: null,
  })
  expect(rules.map(({ rule, line }) => `${line} ${ruleWords(rule)}`)).toEqual([
    '6 deny WebFetch (blocked_tools)',
    '7 ask Bash (approval_required_tools)',
    '5 allow Read (allowed_tools)',
    '5 allow Bash (allowed_tools)',
    '20 allow net api.anthropic.com (proxy_allowlist)',
    '20 allow net .example.org (proxy_allowlist)',
    '27 deny Bash "git push *" (no)',
    '28 ask spend any model above $2.00',
  ])
})

test("readPolicy() takes the seed's own nesting as it stands", () => {
  const { rules, money, autonomy, models, tools, maxConcurrent } = settings(`
mounts:
  /claude:
    type: claude
    access: budgeted  # REQUIRED: Claude API costs money
    budget:
      per_tick_usd: 1000000       # $1/tick (in micro-USD)
      per_day_usd: 100000000      # $100/day (in micro-USD)
      approval_threshold_usd: 10000000  # $10 requires approval
    policy:
      allowed_providers: ["tunnel", "cloud"]
      allowed_models: ["claude-sonnet-4-*", "claude-haiku-*"]
      blocked_models: ["claude-opus-*"]
      allowed_tools: ["Read", "Write", "Edit", "Bash", "Glob", "Grep"]
      blocked_tools: ["WebFetch"]
      approval_required_tools: ["Bash"]
      max_concurrent: 3
      max_context_tokens: 200000
      require_max_cost: true
      repo_filter: { custom: { denylist: ["*.pem"], allowlist: [] } }
`)
  expect({ autonomy, maxConcurrent, tools: tools?.length, models: models.allowed.length }).toEqual({
    autonomy: 'supervised',
    maxConcurrent: 3,
    tools: 6,
    models: 2,
  })
  expect(money).toMatchObject({ perTickNanos: 1e9, perDayNanos: 1e11, approvalThresholdNanos: 1e10, requireMaxCost: true })
  expect(rules[0]).toMatchObject({ line: 15, rule: { effect: 'deny', match: { tool: 'WebFetch' } } })
})

test('readPolicy() takes a preset for the rules that it stands for, in a rule and in the list of hosts', () => {
  const { rules } = settings(`
proxy_allowlist: ["preset:pypi"]
rules:
  - { on: net, preset: go, effect: allow, why: builds }
  - { on: net, preset: go, effect: allow, how: tunnel }
  - { on: net, preset: debian, effect: deny }
`)
  expect(rules.map(({ rule, line }) => `${line} ${ruleWords(rule)}`)).toEqual([
    '2 allow net GET|HEAD pypi.org:443 by preset pypi (proxy_allowlist)',
    '2 allow net GET|HEAD files.pythonhosted.org:443 by preset pypi (proxy_allowlist)',
    '4 allow net GET|HEAD proxy.golang.org:443 by preset go (builds)',
    '4 allow net GET|HEAD sum.golang.org:443 by preset go (builds)',
    '5 allow net proxy.golang.org:443 by preset go',
    '5 allow net sum.golang.org:443 by preset go',
    '6 deny net deb.debian.org:80 by preset debian',
    '6 deny net deb.debian.org:443 by preset debian',
    '6 deny net security.debian.org:80 by preset debian',
    '6 deny net security.debian.org:443 by preset debian',
  ])
})

test('readPolicy() takes an empty file, comments alone and keys without a value for a policy that says nothing', () => {
  for (const text of ['', '# nothing\n', '---\n', 'rules:\nblocked_tools:\n', '{}']) expect(settings(text).rules).toEqual([])
})

test.each([
  ['max_concurrent: 3\nblocked_tool: [x]\n', '2:1 error Unknown key "blocked_tool": did you mean "blocked_tools"?'],
  ['defaultAutonomy: full\n', '1:1 error Unknown key "defaultAutonomy": did you mean "default_autonomy"?'],
  ['rules:\n  - on: tool\n    match:\n      toool: x\n    effect: deny\n', '4:7 error Unknown key "rules.0.match.toool"'],
  ['rules:\n  - on: tool\n    match: {}\n    effect: maybe\n', '4:13 error rules.0.effect: write allow, ask or deny'],
  ['rules:\n  - on: network\n    match: {}\n    effect: deny\n', '2:9 error rules.0.on: write tool, net, host or spend'],
  ['max_concurrent: three\n', '1:17 error max_concurrent: this must be a number'],
  ['max_concurrent: -1\n', '1:17 error max_concurrent: this must be 0 or more'],
  ['tick_seconds: 1.5\n', '1:15 error tick_seconds: this must be a whole number'],
  ['request_hours: 0\n', '1:16 error request_hours: this must be more than 0'],
  ['rates: { tokens_per_minute: 9999999999 }\n', '1:29 error rates.tokens_per_minute: this must be 1000000000 or less'],
  ['allowed_models: [""]\n', '1:18 error allowed_models.0: this must not be empty'],
  ['require_max_cost: yes\n', '1:19 error require_max_cost: this must be true or false'],
  ['rung: attic\n', '1:7 error rung: write '],
  ['budget:\n  per_week_usd: 1\n', '2:3 error Unknown key "budget.per_week_usd"'],
  ['network_mode: all\n', '1:15 error network_mode: write none, proxy_only or host'],
  ['proxy_allowlist:\n  - https://a.org/\n', '2:5 error proxy_allowlist.0: not a host'],
  ['proxy_allowlist: ["preset:nom"]\n', '1:19 error proxy_allowlist.0: not a host'],
  ['rules:\n  - { on: net, preset: nom, effect: allow }\n', '2:24 error rules.0.preset: write npm, pypi, '],
  ['rules:\n  - { on: net, effect: allow }\n', '2:5 error rules.0: name a match or a preset'],
  [
    'rules:\n  - { on: net, preset: npm, match: { host: a.org }, effect: allow }\n',
    '2:5 error rules.0: name a match or a preset',
  ],
  [
    'rules:\n  - { on: net, preset: npm, effect: allow, own_network: true }\n',
    '2:57 error rules.0.own_network: a preset is of hosts that everybody reaches',
  ],
  [
    'rules:\n  - { on: net, match: { host: a.org }, effect: allow, how: tunnel, only_ours: true }\n',
    '2:79 error rules.0.only_ours: what is passed on unread cannot be held to it',
  ],
  ['a: 1\na: 2\n', '2:1 error The key "a" is there twice'],
  ['rules: [\n', '2:1 error '],
  ['rules: !!js/function x\n', '1:8 error Unresolved tag'],
  ['a: 1\n---\nb: 2\n', '2:1 error There is more than one document'],
  ['x: &a [1]\ny: *a\n', '2:4 error The alias "*a" is not taken'],
  ['- 1\n', '1:1 error this must be an object: keys with their values'],
  [
    'max_cost_usd_per_day: 1000000\nmax_cost_micros_per_day: 1000000\n',
    '2:26 error "max_cost_micros_per_day" and "max_cost_usd_per_day" say the same',
  ],
  [
    'default_autonomy: full\nmounts:\n  /claude: {}\n',
    '1:1 error "default_autonomy" stands beside "mounts": write it below mounts./claude.policy',
  ],
  ['budget: {}\nmounts:\n  /claude: {}\n', '1:1 error "budget" stands beside "mounts": write it below mounts./claude, or'],
  ['zzz: 1\nyyy: 2\nmax_concurrent: x\n', '1:1 error Unknown key "zzz"\n2:1 error Unknown key "yyy"\n3:17 error'],
  ['mounts:\n  /compute: {}\n', 'error Unknown key "mounts./compute"'],
])('readPolicy() refuses %j with its line and column', (text, message) => {
  expect(read(text).settings).toBe(null)
  expect(problems(text).join('\n')).toContain(message)
})

test.each([
  [
    'max_cost_usd_per_day: 5.5',
    '5.5 is a fraction, and its unit is not clear: as micro-USD it is $0.0000055, as dollars $5.50; write "$5.5" for dollars',
  ],
  ['max_cost_usd_per_day: 20000000000', 'as micro-USD it is $20,000.00, as dollars $20,000,000,000.00'],
  ['default_max_cost_micros: 0.1', 'as micro-USD it is $0.0000001, as dollars $0.10'],
  ['budget: { per_tick_usd: -1 }', '-1 is below nothing'],
  ['budget: { per_tick_usd: "5" }', '"5" is no sum of money: write dollars as "$5"'],
  ['budget: { per_tick_usd: "$5.1234567" }', 'is no sum of money'],
])('readPolicy() refuses %s, and shows both readings', (text, message) => {
  expect(problems(text).join()).toContain(message)
})

test('readPolicy() takes ten thousand dollars, and warns of a number that was hardly meant', () => {
  expect(settings('max_cost_usd_per_day: 10000000000').money.perDayNanos).toBe(1e13)
  expect(problems('max_cost_usd_per_day: 100')).toEqual([
    '1:23 warning max_cost_usd_per_day: 100 micro-USD are $0.0001; write "$100" if dollars are meant',
  ])
})

test('readPolicy() refuses two rules on the same with different effects, and says both lines', () => {
  const text = (first: string, second: string) => `rules:
  - { on: net, match: { host: a.org, port: 1 }, effect: ${first} }
  - { on: net, match: { port: 1, host: a.org }, effect: ${second} }
`
  expect(read(text('allow', 'deny')).settings).toBe(null)
  expect(problems(text('allow', 'deny'))).toEqual([
    '3:5 error "deny net a.org:1" contradicts line 2, which has "allow net a.org:1": keep one of them',
  ])
  expect(problems(text('ask', 'deny'))).toEqual([
    '3:5 error "deny net a.org:1" contradicts line 2, which has "ask net a.org:1": keep one of them',
  ])
  expect(problems(text('deny', 'deny'))).toEqual([])
})

test('readPolicy() knows a host that takes no credential of a cell, and a path in any case', () => {
  const text = `rules:
  - { on: net, match: { host: a.org }, effect: allow, only_ours: true }
  - { on: net, preset: go, effect: allow, only_ours: true }
  - { on: net, match: { host: a.org, path: /Admin/*, any_case: true }, effect: deny }
`
  expect(problems(text)).toEqual([])
  expect(read(text).settings!.rules.map(({ rule }) => rule)).toEqual([
    { on: 'net', match: { host: 'a.org' }, effect: 'allow', only_ours: true },
    ...['proxy.golang.org', 'sum.golang.org'].map((host) =>
      expect.objectContaining({ match: expect.objectContaining({ host }) as unknown, only_ours: true }),
    ),
    { on: 'net', match: { host: 'a.org', path: '/Admin/*', any_case: true }, effect: 'deny' },
  ])
})

test('readPolicy() warns of what another line makes void, in the order of the lines', () => {
  const text = `
allowed_tools: [Bash, Read]
blocked_tools: ["B*"]
allowed_models: [a-1]
blocked_models: [a-*]
rules:
  - { on: net, match: { host: x.a.org }, effect: allow }
  - { on: net, match: { host: .a.org }, effect: deny }
  - { on: tool, match: { tool: Bash, command: git push * }, effect: allow }
  - { on: tool, match: { tool: Edit }, effect: allow }
  - { on: net, preset: go, effect: allow }
  - { on: net, match: { host: proxy.golang.org, port: 443, method: [GET, HEAD] }, effect: deny }
`
  expect(read(text).settings).not.toBe(null)
  expect(problems(text)).toEqual([
    '2:17 warning "Bash" is void: blocked_tools has "B*"',
    '4:18 warning "a-1" is void: blocked_models has "a-*"',
    '7:5 warning "allow net x.a.org" is void: line 8 has "deny net .a.org"',
    '9:5 warning "allow Bash "git push *"" is void: line 3 has "deny B* (blocked_tools)"',
    '10:5 warning "allow Edit" is void: allowed_tools does not name "Edit"',
    '12:5 warning "deny net GET|HEAD proxy.golang.org:443" contradicts line 11, which has "allow net GET|HEAD proxy.golang.org:443 by preset go": the strictest counts',
  ])
})

test('readPolicy() warns of a tool whose name is written with other letters, wherever it is named', () => {
  const text = 'blocked_tools: [bash, Write]\nrules:\n  - { on: tool, match: { tool: READ, path: x }, effect: deny }\n'
  expect(readPolicy('policy.yaml', text).problems).toMatchObject([
    { level: 'warning', line: 1, message: 'No tool is called "bash": write "Bash" if that is meant' },
    { level: 'warning', line: 3, message: 'No tool is called "READ": write "Read" if that is meant' },
  ])
})

test('readPolicy() is not brought down by files that grow when they are read', () => {
  const bomb = [
    'a: &a [x,x,x,x,x,x,x,x,x]',
    ...Array.from(
      { length: 8 },
      (_, i) =>
        `${String.fromCodePoint(98 + i)}: &${String.fromCodePoint(98 + i)} [${`*${String.fromCodePoint(97 + i)},`.repeat(9)}]`,
    ),
  ].join('\n')
  expect(problems(bomb).join()).toContain('alias')
  for (const nested of [
    '['.repeat(250_000),
    '{a: '.repeat(60_000),
    '- '.repeat(120_000),
    '[\n'.repeat(1000),
    `${' '.repeat(500)}a: 1`,
  ])
    expect(problems(nested).join()).toContain('nested too deep')
  expect(problems(Array.from({ length: 5000 }, (_, i) => `key-${i}: 1`).join('\n'))).toHaveLength(50)
  expect(problems(`# x\n`.repeat(100 * 1024))).toEqual([expect.stringContaining('65537:1 error The file is larger than 256 KiB')])
  expect(problems(`# ${'x'.repeat(256 * 1024)}`)).toEqual([expect.stringContaining('1:1 error The file is larger than 256 KiB')])
  expect(
    problems(
      'x'
        .repeat(1000)
        .split('')
        .map((_, i) => `k${i}: 1`)
        .join('\n'),
    ),
  ).toHaveLength(50)
  expect(settings('__proto__:\n').rules).toEqual([])
  expect(problems('__proto__: { default_autonomy: full }\n').length).toBe(1)
})

const mount = (access: string) => `mounts:
  /claude:
    access: ${access}
    policy:
      default_autonomy: full
`

test('readPolicy() takes the access of a mount: disabled denies all, read_only runs no tool, anything unknown is refused', () => {
  const disabled = settings(mount('disabled'))
  expect(disabled.disabledAt).toBe(3)
  expect(disabled.rules.map(({ rule, line }) => `${line} ${rule.on} ${rule.effect} ${rule.why}`)).toEqual(
    ['tool', 'net', 'host', 'spend'].map((on) => `3 ${on} deny policy.yaml:3: access: disabled`),
  )
  expect(settings(mount('read_only')).autonomy).toBe('read_only')
  for (const open of ['budgeted', 'read_write', 'full'])
    expect(settings(mount(open))).toMatchObject({ autonomy: 'full', disabledAt: null, rules: [] })
  expect(problems(mount('sometimes'))).toEqual([
    '3:13 error mounts./claude.access: write budgeted, read_only, read_write, full or disabled',
  ])
})
