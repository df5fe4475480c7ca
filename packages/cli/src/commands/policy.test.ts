import { expect, test } from 'vitest'
import { actionFrom } from './policy.ts'

test.each([
  ['git push', {}, { tool: 'Bash', command: 'git push' }],
  [undefined, { tool: 'Bash', command: 'ls' }, { tool: 'Bash', command: 'ls' }],
  [undefined, { tool: 'Edit', path: 'src/a.ts' }, { tool: 'Edit', path: 'src/a.ts' }],
  [undefined, { tool: 'WebFetch', input: '{"url":"https://a.org"}' }, { tool: 'WebFetch', input: { url: 'https://a.org' } }],
  [undefined, { net: ['GET', 'https://a.org/x'] }, { net: 'GET https://a.org/x' }],
  [undefined, { host: ['deploy', 'env=staging', 'x=a=b'] }, { host: 'deploy', params: { env: 'staging', x: 'a=b' } }],
  [undefined, { spend: ['claude-opus-5', '2.50'] }, { spend: 'claude-opus-5', usd: '2.50' }],
])('actionFrom() of %j and %j', (command, flags, action) => {
  expect(actionFrom(command, flags)).toEqual(action)
})

test.each([
  [undefined, {}],
  ['ls', { net: ['a.org'] }],
  ['', {}],
  [undefined, { tool: 'Bash', command: ' ' }],
  [undefined, { net: [''] }],
  [undefined, { host: ['deploy', 'staging'] }],
  [undefined, { tool: 'X', input: '[1]' }],
])('actionFrom() refuses %j and %j with a remedy', (command, flags) => {
  expect(() => actionFrom(command, flags)).toThrow(
    expect.objectContaining({ code: 'bad_request', hint: expect.any(String) as string }),
  )
})
