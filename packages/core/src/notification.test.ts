import { expect, test } from 'vitest'
import { noticeOf, withoutSecrets } from './notification.ts'

const run = (command: string) => noticeOf({ kind: 'tool', tool: 'Bash', input: { command, description: 'x' } }, '“a”')

test('noticeOf() gives the exact words where they fit', () => {
  expect(run('git push origin main')).toEqual({ title: '“a” wants to run', text: 'git push origin main', whole: true })
  expect(noticeOf({ kind: 'net', host: 'a.example', port: 443, method: 'GET', path: '/x' }, '“a”')).toMatchObject({
    text: 'GET a.example:443/x',
    whole: true,
  })
})

test('noticeOf() makes hidden characters visible', () => {
  expect(run('echo safe\u202Etxt\n\u001b[2J').text).toBe('echo safe\\u{202e}txt␊␛[2J')
})

test('noticeOf() shows letters and dashes that pass for others', () => {
  expect(run('ѕh -c id')).toMatchObject({ text: '\\u{455}h -c id', whole: true })
  expect(run('rm –rf /').text).toBe('rm \\u{2013}rf /')
  expect(noticeOf({ kind: 'net', host: 'раура.com', port: 443, method: null, path: null }, '“Правка с тестами”')).toMatchObject({
    title: '“Правка с тестами” wants to reach',
    text: '\\u{440}\\u{430}\\u{443}\\u{440}\\u{430}.com:443',
  })
})

test('noticeOf() is not whole where something is left out, so that nothing is allowed unseen', () => {
  for (const command of ['x'.repeat(300), 'curl -H "Authorization: Bearer abcdefghij" https://x.example'])
    expect(run(command).whole).toBe(false)
  expect(noticeOf({ kind: 'tool', tool: 'Bash', input: { command: 'ls', run_in_background: true } }, '“a”').whole).toBe(false)
  expect(noticeOf({ kind: 'host', program: 'deploy', params: {} }, '“a”').whole).toBe(false)
})

// Each of these took minutes once, in the process that has the panic button.
test.each([
  ['blanks', `token${' '.repeat(200_000)}`],
  ['no capitals', '1 '.repeat(100_000)],
  ['names of secrets', 'authorization'.repeat(15_000)],
  ['names and blanks', `token${' '.repeat(200)}`.repeat(1000)],
  ['one word', 'a1'.repeat(100_000)],
  ['addresses', '://a'.repeat(50_000)],
])('noticeOf() is there for others soon when a command is full of %s', { timeout: 10_000 }, (_, command) => {
  expect(run(command)).toMatchObject({ whole: false, text: expect.stringMatching(/…$/) })
  expect(noticeOf({ kind: 'tool', tool: 'Write', input: { command } }, '“a”')).toMatchObject({ whole: false })
})

test.each([
  ['curl https://me:hunter22@host/', 'hunter22'],
  ['deploy --token abcd1234', 'abcd1234'],
  ['export API_KEY=abcd1234', 'abcd1234'],
  ['curl -H "Authorization: Bearer abc.def"', 'abc.def'],
  ['echo sk-ant-api03-AbCdEfGhIjKl', 'AbCdEfGhIjKl'],
  ['echo ghp_0123456789abcdefABCD', '0123456789abcdefABCD'],
  ['echo Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4MTIz', 'Zm9vYmFyYmF6'],
  ['echo 0123456789abcdef0123456789abcdef', '0123456789abcdef'],
])('withoutSecrets() hides what is secret in %s', (text, secret) => {
  expect(withoutSecrets(text)).not.toContain(secret)
})

test('withoutSecrets() leaves ordinary words', () => {
  for (const text of ['npm test', 'cat packages/daemon/src/store/sqlite/migrations.ts', 'git log --oneline'])
    expect(withoutSecrets(text)).toBe(text)
})
