import { expect, test } from 'vitest'
import { reply as replyTo } from './brain.ts'
import { type ApiRequest, conversationOf } from './messages/request.ts'
import { parseInstruction } from './instructions.ts'

const reply = (request: ApiRequest) => replyTo(conversationOf(request))
const many = 200_000

// Each of these took minutes or hours once, while every other session of the gate waited.
test.each([
  ['blanks', `run a${' '.repeat(many)}b`],
  ['semicolons', `run a${';b'.repeat(many)}`],
  ['lines', `run a${'\n'.repeat(many)}b`],
  ['blanks before a code', `run:${' \n'.repeat(many)}x`],
  ['quotes that never end', 'run “'.repeat(many / 5)],
  ['digits', `stream ${'1'.repeat(many)}`],
  ['words that could end it', `replace ${'a with b in '.repeat(many / 12)}\u0000`],
  ['a question', `ask ${'a'.repeat(many)}${'?'.repeat(many)}x`],
  ['plans of plans', 'please plan to '.repeat(many / 15)],
  ['marks of quotes', `"${'x'.repeat(many)}" ${'\uE0000\uE001'.repeat(many / 3)}`],
  ['commands', '<command-name>'.repeat(many / 14)],
  ['interruptions', '[Request interrupted by user'.repeat(many / 28)],
  ['news of a task', '</task-notification><result>'.repeat(many / 28) + '<task-notification>'.repeat(many / 19)],
  ['lists of tools', 'deferred tools are now available via ToolSearch'.repeat(many / 47)],
  ['guidance', `Contents of ${'Contents of CLAUDE.md '.repeat(many / 22)}`],
  ['guidance that is empty', `Contents of CLAUDE.md:${'\n'.repeat(many)}`],
  [
    'what was settled',
    `While you were away, what you had asked for was settled.${'allowed your the call of '.repeat(many / 25)}`,
  ],
])('reply() is there for others soon when a prompt is full of %s', { timeout: 20_000 }, (_, content) => {
  expect(reply({ model: 'rehearsal-1', messages: [{ role: 'user', content }] }).kind).toBe('moves')
})

test('parseInstruction() takes blanks together, but for those in quotes', () => {
  expect(parseInstruction('create   a.txt \t saying  "x   y\t"  ,\n\n  and   then   run  `a  b`')).toEqual([
    { do: 'create', path: 'a.txt', content: 'x   y\t\n' },
    { do: 'run', command: 'a  b' },
  ])
})

test.each([
  ['run id; uname -a', ['id; uname -a']],
  ['run cd src; ls -la; grep x *, then run pwd', ['cd src; ls -la; grep x *', 'pwd']],
  ['run for i in 1 2; do echo $i; done', ['for i in 1 2; do echo $i; done']],
  ['$ id; uname -a', ['id; uname -a']],
  ['run id; run uname -a;', ['id', 'uname -a']],
])('parseInstruction() takes all of %j for commands', (text, commands) => {
  expect(parseInstruction(text)).toEqual(commands.map((command) => ({ do: 'run', command })))
})

test('parseInstruction() ends a command where another step begins, and a quoted one at its quote', () => {
  expect(parseInstruction('run false; please read b.txt').map((step) => step.do)).toEqual(['run', 'read'])
  expect(parseInstruction('run `id`; bake a cake')).toEqual([
    { do: 'run', command: 'id' },
    { do: 'unknown', text: 'bake a cake' },
  ])
})

test('parseInstruction() reads no more words than it has time for, and all that is quoted', () => {
  const quoted = 'q'.repeat(many)
  expect(parseInstruction(`run a; say "${quoted}"`)).toEqual([
    { do: 'run', command: 'a' },
    { do: 'say', text: quoted, paceMs: 0 },
  ])
  expect(parseInstruction('run a;'.repeat(many / 6)).length).toBeLessThan(3000)
})
