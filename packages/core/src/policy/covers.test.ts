import type { Rule } from '@anchorhold/protocol/policy'
import { expect, test } from 'vitest'
import { coversAll } from './covers.ts'

const on = (kind: Rule['on'], match: object): Rule => ({ on: kind, match, effect: 'deny' }) as Rule

test.each<[string, Rule, Rule, boolean]>([
  ['any tool', on('tool', {}), on('tool', { tool: 'Bash', command: 'ls *' }), true],
  ['a wider command', on('tool', { tool: 'Bash', command: 'git *' }), on('tool', { tool: 'Bash', command: 'git push *' }), true],
  ['a narrower command', on('tool', { command: 'git push *' }), on('tool', { command: 'git *' }), false],
  ['a command and none', on('tool', { tool: 'Bash', command: 'git *' }), on('tool', { tool: 'Bash' }), false],
  ['a closed command', on('tool', { command: 'git push' }), on('tool', { command: 'git push *' }), false],
  ['a folder and a file in it', on('tool', { path: 'src/*' }), on('tool', { tool: 'Edit', path: 'src/a/*.ts' }), true],
  ['a folder and another', on('tool', { path: 'src/*' }), on('tool', { path: 'doc/*' }), false],
  ['a field', on('tool', { input: { a: 'x*' } }), on('tool', { input: { a: 'xy', b: 'z' } }), true],
  ['a field that is not named', on('tool', { input: { a: 'x*' } }), on('tool', {}), false],
  ['a domain', on('net', { host: '.a.org' }), on('net', { host: 'x.a.org', port: 443 }), true],
  ['a domain and itself', on('net', { host: '.a.org' }), on('net', { host: 'A.org' }), true],
  ['a domain that only ends alike', on('net', { host: '.a.org' }), on('net', { host: 'xa.org' }), false],
  ['methods', on('net', { host: '*', method: ['GET', 'POST'] }), on('net', { host: 'a', method: 'GET' }), true],
  ['methods and all', on('net', { host: '*', method: 'GET' }), on('net', { host: 'a' }), false],
  ['one port and all', on('net', { host: 'a', port: 1 }), on('net', { host: 'a' }), false],
  ['a path in any case', on('net', { host: 'a', path: '/A/*', any_case: true }), on('net', { host: 'a', path: '/a/B' }), true],
  ['a path in one case', on('net', { host: 'a', path: '/a/*' }), on('net', { host: 'a', path: '/a/b', any_case: true }), false],
  ['a program', on('host', { program: 'dep*' }), on('host', { program: 'deploy', params: { a: 'b' } }), true],
  ['dearer calls', on('spend', { above_nanos: 5 }), on('spend', { model: 'x', above_nanos: 9 }), true],
  ['cheaper calls', on('spend', { above_nanos: 5 }), on('spend', { model: 'x' }), false],
  ['another kind', on('spend', {}), on('tool', {}), false],
])('coversAll() knows %s', (_, wide, narrow, covered) => {
  expect(coversAll(wide)(narrow)).toBe(covered)
})
