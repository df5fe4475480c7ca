import { expect, test } from 'vitest'
import { messages } from './messages.ts'

const mib = 1024 * 1024
/** A text of this unit over and over, as long as one is looked at. */
const full = (unit: string) => unit.repeat(Math.ceil(mib / unit.length)).slice(0, mib)
const user = (content: unknown) => ({ role: 'user', content })
const asking = (list: readonly unknown[], more: object = {}) => ({
  model: 'rehearsal-1',
  max_tokens: 128_000,
  stream: true,
  messages: list,
  ...more,
})
const settled = 'While you were away, what you had asked for was settled.'

/** For each place that looks at a text: what makes it look longest. */
const texts = {
  headings: full('Contents of '),
  'headings with a file': full('Contents of CLAUDE.md '),
  'headings with nothing below': full('Contents of CLAUDE.md:\n'),
  files: full('CLAUDE.md'),
  'ends of lines that are no line feeds': full('\r'),
  'ends of lines of another kind': full('\u2028'),
  'working directories': full('Working directory: '),
  'working directories without a name': full('\nWorking directory: \n'),
  'plan files': full('plan file: /'),
  'a plan file that does not end': `plan file: /${full('a')}`,
  'lists of tools': full('deferred tools are now available via ToolSearch'),
  'lists of one tool': full('deferred tools are now available via ToolSearch\na\n'),
  'a tool of a long name': `deferred tools are now available via ToolSearch\n${full('a')}`,
  reminders: full('<system-reminder>'),
  'a reminder that does not end': `<system-reminder>${full('<')}`,
  commands: full('<command-name><command-message><command-args><local-command-stdout><local-command-caveat>'),
  'a command that does not end': `<command-name>${full('<')}`,
  interruptions: full('[Request interrupted by user'),
  'tasks that ended': full('<task-notification>'),
  'a task that does not end': `<task-notification>${full('<')}`,
  'words in mid-turn': full('The user sent a new message while you were working:\n'),
  'words in mid-turn that do not end': `The user sent a new message while you were working:\n${full('\n')}`,
  'plan modes': full('Plan mode is active'),
  scripts: full('SCRIPT64:'),
  'a script that does not end': `SCRIPT64:${full('a')}`,
  'things that were settled': settled + full('allowed your the call of '),
  'things that were settled and end': settled + full('allowed your x. Do it again now exactly as before'),
  quotes: full('""'),
  'quotes that end with their line': full('"\n'),
  'quotes in quotes': full('`"“'),
  apostrophes: full(" '"),
  blanks: full(' \n'),
  'halves of characters': `say ${full('\uFFFDa')}`,
  'words without blanks': `say ${full('a')}`,
  'blanks without words': `say "a${full(' ')}"`,
  plans: full('please plan to '),
  'plans in quotes': `plan to "${full("plan to 'run a; run b'; ")}`,
  steps: full('run a;'),
  'steps with many calls': full('use 100 tools at once; '),
  'long answers': full('say 10000 words; '),
  replacements: `replace ${full('a with b in ')}`,
  questions: `ask ${'a '.repeat(450)}or ${'b '.repeat(450)}c d`,
  titles: full('<a'),
}

/** Answers to the end, as the server does. */
function answered(body: object): { readonly status: number; readonly chars: number } {
  const { status, pieces } = messages.answer('/v1/messages', Buffer.from(JSON.stringify(body)))
  let chars = 0
  for (const piece of pieces) if (piece.at === 'text') chars += piece.text.length
  return { status, chars }
}

// With one place that looks at its text again from everywhere, each of these takes from minutes to days.
test.each(Object.entries(texts))('a text that is full of %s is answered, wherever it stands', { timeout: 30_000 }, (_, text) => {
  const call = { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: {} }] }
  const result = user([{ type: 'tool_result', tool_use_id: 't', content: text }])
  const title = { output_config: { format: { schema: { properties: { title: {} } } } } }
  for (const body of [
    asking([user(text)]),
    asking([user('list files')], { system: text }),
    asking([user('run a'), call, result], { tools: [{ name: 'Bash' }] }),
    asking([user('start a sub-agent to x'), { ...call, content: [{ ...call.content[0], name: 'Agent' }] }, result]),
    asking([user(text)], title),
  ])
    expect(answered(body).status).toBeLessThan(500)
})

test('a request of the largest size is answered, with all of it at once', { timeout: 60_000 }, () => {
  const all = Object.values(texts).flatMap((text, index) => {
    const call = { type: 'tool_use', id: `t${index}`, name: 'Bash', input: {} }
    return index % 2 === 0
      ? [user(text)]
      : [{ role: 'assistant', content: [call] }, user([{ type: 'tool_result', tool_use_id: `t${index}`, content: text }])]
  })
  const body = asking([...all.slice(0, 24), user('what did I ask?')], { system: texts.files })
  expect(answered(body)).toMatchObject({ status: 200 })
})

const use = (index: number, name = 'Bash') => ({ type: 'tool_use', id: `t${index}`, name, input: {} })
const result = (index: number, content = '') => ({ type: 'tool_result', tool_use_id: `t${index}`, content })
const many = (count: number) => Array.from({ length: count }, (_, index) => index)

// As many of each as the bound on parts lets in.
test.each([
  ['messages that nobody answered', many(40_000).map(() => user('a'))],
  ['turns', many(40_000).map((index) => (index % 2 === 0 ? user('a') : { role: 'assistant', content: 'a' }))],
  ['images', [user(many(70_000).map(() => ({ type: 'image' })))]],
  [
    'calls and results',
    [user('run a'), { role: 'assistant', content: many(12_000).map((n) => use(n)) }, user(many(12_000).map((n) => result(n)))],
  ],
  [
    'calls for a plan, with long results',
    [
      user(`plan to ${'run a; '.repeat(2000)}`),
      {
        role: 'assistant',
        content: [
          use(0, 'ExitPlanMode'),
          ...many(3000)
            .slice(1)
            .map((n) => use(n)),
        ],
      },
      user(many(3000).map((n) => result(n, '`'.repeat(9000)))),
    ],
  ],
  [
    'plans in plans',
    [
      user(`plan to "${"plan to 'run a; plan to b'; ".repeat(9000)}"; ${'plan to a; '.repeat(500)}`),
      { role: 'assistant', content: many(10_000).map((n) => use(n, n % 2 === 0 ? 'ExitPlanMode' : 'Bash')) },
      user(many(10_000).map((n) => result(n))),
    ],
  ],
])('a request with as many %s as it may have is answered', { timeout: 30_000 }, (_, list) => {
  const { status, chars } = answered(asking(list, { tools: [{ name: 'Bash' }, { name: 'ExitPlanMode' }] }))
  expect({ status, isAnswer: chars > 0 }).toEqual({ status: 200, isAnswer: true })
})

test('an answer is never longer than it may be, whatever is asked for', () => {
  const said = answered(asking([user(`say "${full('word ').slice(0, 900_000)}"`)], { max_tokens: 9_000_000 }))
  expect(said.chars).toBeLessThan(20 * mib)
  const { pieces } = messages.answer(
    '/v1/messages',
    Buffer.from(
      JSON.stringify(asking([user(`say "${full('word ').slice(0, 900_000)}"`)], { max_tokens: 9_000_000, stream: false })),
    ),
  )
  const [piece] = [...pieces]
  expect(JSON.parse(piece!.at === 'text' ? piece!.text : '')).toMatchObject({
    stop_reason: 'max_tokens',
    usage: { output_tokens: 128_000 },
  })
})
