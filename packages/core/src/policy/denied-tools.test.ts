import type { Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { deniedTools } from './denied-tools.ts'

const deny = (match: Extract<Rule, { on: 'tool' }>['match'], why?: string): Rule => ({
  on: 'tool',
  match,
  effect: 'deny',
  ...(why === undefined ? {} : { why }),
})

test.each([
  ['denies what a rule names', [deny({ tool: 'Bash' }, 'no shell')], [], 'Bash', 'no shell'],
  ['denies what a pattern fits', [deny({ tool: 'mcp__*' })], [], 'mcp__a__b', 'a rule denies it'],
  ['denies all where a rule says nothing more', [deny({})], [], 'Read', 'a rule denies it'],
  ['knows a tool by the name that it had', [deny({ tool: 'Task' })], [], 'Agent', 'a rule denies it'],
  ['leaves what is denied only for some calls', [deny({ tool: 'Bash', command: 'rm *' })], [['*']], 'Bash', null],
  ['leaves what is asked for', [{ ...deny({ tool: 'Bash' }), effect: 'ask' }] as Rule[], [['*']], 'Bash', null],
  ['denies what a list does not name', [], [['Read', 'Edit']], 'Bash', 'allowed_tools does not name it'],
  ['denies what one of two lists does not name', [], [['Bash'], ['Read']], 'Bash', 'allowed_tools does not name it'],
  ['leaves what every list names', [], [['Bash', 'Read'], ['*']], 'Bash', null],
])('deniedTools() %s', (_, rules, tools, tool, why) => {
  expect(deniedTools({ rules: [...rules], tools })?.(tool) ?? null).toBe(why)
})

test('deniedTools() is null where nothing is denied outright', () => {
  expect(deniedTools({ rules: [deny({ tool: 'Bash', command: 'rm *' })], tools: [] })).toBeNull()
})
