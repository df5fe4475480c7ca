import { expect, test } from 'vitest'
import { foreignCredential } from './foreign-credentials.ts'

const none = { headers: [], parameters: [] }

test.each([
  ['authorization', 'Bearer mine'],
  ['Authorization', 'Basic bWU6bWluZQ=='],
  ['Cookie', 'session=mine'],
  ['PRIVATE-TOKEN', 'mine'],
  ['private_token', 'mine'],
  ['X-Api-Key', 'mine'],
  ['apikey', 'mine'],
  ['job-token', 'mine'],
  ['x-access-token', 'mine'],
  ['x-goog-api-key', 'mine'],
  ['x-amz-security-token', 'mine'],
  ['ocp-apim-subscription-key', 'mine'],
  ['x-forwarded-authorization', 'mine'],
  ['sec-websocket-protocol', 'chat, base64url.bearer.authorization.k8s.io.bWluZQ'],
])('foreignCredential() finds one in the header %s', (name, value) => {
  expect(foreignCredential({ path: '/', rawHeaders: ['host', 'a', name, value] }, none)).toBe(
    `the header "${name.toLowerCase()}"`,
  )
})

test.each([
  ['access_token', 'access_token'],
  ['private_token', 'private_token'],
  ['api_key', 'api_key'],
  ['apiKey', 'apiKey'],
  ['key', 'key'],
  ['token', 'token'],
  ['t%6fken', 'token'],
  ['t%256fken', 't%6fken'],
  ['KEY', 'KEY'],
  ['auth[token]', 'auth'],
  ['X-Amz-Signature', 'X-Amz-Signature'],
  ['client_secret', 'client_secret'],
])('foreignCredential() finds one in the parameter %s', (name) => {
  for (const path of [`/a?${name}=mine`, `/a?b=1&${name}=mine`, `/a?b=1;${name}=mine`])
    expect(foreignCredential({ path, rawHeaders: [] }, none)).toMatch(/^the parameter "/)
})

test.each([
  ['/a?page_token=2&pageToken=3&continuation=4', []],
  ['/a?q=token&keyword=x&key=', []],
  ['/token/key?service=git-upload-pack', []],
  ['/', ['accept', 'text/html', 'npm-session', 'abc', 'npm-auth-type', 'web', 'user-agent', 'token/1', 'if-none-match', '"a"']],
  ['/', ['authorization', 'Bearer ********', 'cookie', '']],
  ['/', ['sec-websocket-protocol', 'graphql-ws', 'sec-websocket-key', 'dGhlIHNhbXBsZQ==']],
])('foreignCredential() takes nothing in %s with %j for one', (path, rawHeaders) => {
  expect(foreignCredential({ path, rawHeaders }, none)).toBeNull()
})

test('foreignCredential() leaves out where the owner has put theirs', () => {
  const call = { path: '/?Key=ours', rawHeaders: ['Private-Token', 'ours'] }
  expect(foreignCredential(call, { headers: ['private-token'], parameters: ['key'] })).toBeNull()
  expect(foreignCredential(call, { headers: ['private-token'], parameters: [] })).toBe('the parameter "Key" of its query')
})

test('foreignCredential() is not slow with the longest path and headers that a window takes', () => {
  const path = `/?${'%25'.repeat(2700)}`
  const rawHeaders = [
    'x-'.repeat(15_000),
    '*'.repeat(30_000),
    `${'-'.repeat(30_000)}x`,
    'a '.repeat(15_000),
    'authorization',
    `a${' '.repeat(60_000)}*x`,
  ]
  expect(foreignCredential({ path, rawHeaders }, none)).toBe('the header "authorization"')
})
