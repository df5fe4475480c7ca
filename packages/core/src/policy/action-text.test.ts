import { expect, test } from 'vitest'
import { actionOf, actionWords } from './action-text.ts'

test.each([
  ['GET https://A.org/x/../y?z', { host: 'a.org', port: 443, method: 'GET', path: '/x/../y?z' }],
  ['post http://a.org', { host: 'a.org', port: 80, method: 'POST', path: '/' }],
  ['https://a.org/x', { host: 'a.org', port: 443, method: null, path: null }],
  ['a.org:22', { host: 'a.org', port: 22, method: null, path: null }],
  ['GET https://[::1]:8080/', { host: '::1', port: 8080, method: 'GET', path: '/' }],
])('actionOf() reads %s', (net, action) => {
  expect(actionOf({ net })).toEqual({ kind: 'net', ...action })
})

test.each([{ net: 'GET ftp://a.org/' }, { net: 'GET ://' }, { spend: 'm', usd: 'much' }])('actionOf() refuses %j', (text) => {
  expect(() => actionOf(text)).toThrow(expect.objectContaining({ code: 'bad_request' }))
})

test('actionOf() gives a path to the field that the tool has for it', () => {
  expect(actionOf({ tool: 'Grep', path: 'src' })).toMatchObject({ input: { path: 'src' } })
  expect(actionOf({ tool: 'Edit', path: 'a' })).toMatchObject({ input: { file_path: 'a' } })
  expect(actionWords(actionOf({ host: 'deploy', params: { env: 'x' } }))).toBe('host deploy env=x')
  expect(actionWords(actionOf({ spend: 'm', usd: '$2' }))).toBe('spend m')
})
