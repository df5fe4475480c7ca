import { expect, test } from 'vitest'
import { reply as replyTo } from './brain.ts'
import type { Move } from './conversation.ts'
import { type ApiRequest, conversationOf, type Message } from './messages/request.ts'

const reply = (request: ApiRequest) => replyTo(conversationOf(request))
const tools = ['Bash', 'Read', 'Write', 'Edit', 'Agent', 'AskUserQuestion', 'ExitPlanMode', 'EnterPlanMode'].map((name) => ({
  name,
}))
const environment: Message = {
  role: 'system',
  content: '<system-reminder>\n - Primary working directory: /workspace\n</system-reminder>',
}
const ask = (messages: Message[], more: Partial<ApiRequest> = {}): ApiRequest => ({
  model: 'rehearsal-1',
  tools,
  messages,
  ...more,
})
const user = (text: string): Message => ({ role: 'user', content: [{ type: 'text', text }] })

/** What the tools say in a test: an answer, or the reason of a failure. */
type Tool = (tool: string, input: Record<string, unknown>) => string | { readonly failed: string }

/** Lets an instruction run to its end as an agent would, and gives the calls that were made and the last words. */
function play(prompt: string | Message[], tool: Tool = () => 'ok', more: Partial<ApiRequest> = {}) {
  const messages: Message[] = typeof prompt === 'string' ? [user(prompt), environment] : [...prompt]
  const calls: string[] = []
  for (let turn = 0; turn < 150; turn += 1) {
    const next = reply(ask(messages, more))
    if (next.kind === 'error') return { calls, text: '', error: next }
    const made = next.moves.filter((move) => move.do === 'call')
    if (made.length === 0) return { calls, text: textIn(next.moves), error: null }
    const results = made.map((call, index) => {
      calls.push(`${call.tool} ${JSON.stringify(call.input)}`)
      const result = tool(call.tool, call.input as Record<string, unknown>)
      const failed = typeof result !== 'string'
      return { type: 'tool_result', tool_use_id: `t${turn}.${index}`, content: failed ? result.failed : result, is_error: failed }
    })
    const uses = made.map((call, index) => ({ type: 'tool_use', id: `t${turn}.${index}`, name: call.tool, input: call.input }))
    messages.push(
      { role: 'assistant', content: [{ type: 'text', text: textIn(next.moves) }, ...uses] },
      { role: 'user', content: results },
    )
  }
  throw new Error('It never came to an end')
}
const textIn = (moves: readonly Move[]) => moves.flatMap((move) => (move.do === 'text' ? [move.text] : [])).join('')

const bash = (command: string) =>
  expect.stringMatching(new RegExp(`^Bash .*${command.replaceAll(/[$()*+.?[\\\]^{|}]/g, String.raw`\$&`)}`))
test.each([
  [
    'create hello.txt saying hi, then run cat hello.txt',
    ['Write {"file_path":"/workspace/hello.txt","content":"hi\\n"}', bash('cat hello.txt')],
  ],
  [
    'Please create a file called notes/a.md with "one; then two" and run `ls; pwd`.',
    ['Write {"file_path":"/workspace/notes/a.md","content":"one; then two\\n"}', bash('ls; pwd')],
  ],
  ['write hello world to /tmp/x.txt', ['Write {"file_path":"/tmp/x.txt","content":"hello world\\n"}']],
  [
    'create a.py with:\n```python\nprint(1)\nprint(2)\n```\nthen run python3 a.py',
    ['Write {"file_path":"/workspace/a.py","content":"print(1)\\nprint(2)\\n"}', bash('python3 a.py')],
  ],
  [
    'edit a.txt replacing foo with bar',
    [
      'Read {"file_path":"/workspace/a.txt"}',
      'Edit {"file_path":"/workspace/a.txt","old_string":"foo","new_string":"bar","replace_all":true}',
    ],
  ],
  [
    'replace "a b" with "c d" in a.txt',
    [
      'Read {"file_path":"/workspace/a.txt"}',
      'Edit {"file_path":"/workspace/a.txt","old_string":"a b","new_string":"c d","replace_all":true}',
    ],
  ],
  ['run echo one; run echo two\n3. read a.txt', [bash('echo one'), bash('echo two'), 'Read {"file_path":"/workspace/a.txt"}']],
  ['search for needle in src', [bash("grep -rn -- 'needle' 'src'")]],
  ['list the files', [bash("ls -la '.'")]],
  ['use 3 tools in a row', [bash('echo tool 1 of 3'), bash('echo tool 2 of 3'), bash('echo tool 3 of 3')]],
  ['use 2 tools at once', [bash('echo tool 1 of 2'), bash('echo tool 2 of 2')]],
  ['start a sub-agent to run ls', [expect.stringMatching(/^Agent .*"prompt":"run ls".*"run_in_background":false/)]],
  ['delete a.txt', [bash("rm -- 'a.txt'")]],
])('reply() follows %j', (prompt, calls) => {
  expect(play(prompt).calls).toEqual(calls)
})

test('reply() sums up what it did, shows the output, and says that no model was called', () => {
  const { text } = play('create hello.txt saying hi, then run cat hello.txt', (tool) => (tool === 'Bash' ? 'hi' : 'created'))
  expect(text).toBe('I created hello.txt.\n\n`cat hello.txt` gave:\n\n```\nhi\n```\n\n(Rehearsal: no model was called.)')
})

test('reply() reports tools that failed or were denied, and does the rest', () => {
  const { calls, text } = play('run false; read b.txt', (tool) => (tool === 'Bash' ? { failed: 'the owner said no' } : '1\tx'))
  expect(calls).toHaveLength(2)
  expect(text).toContain('`false` failed:\n\n```\nthe owner said no')
  expect(text).toContain('This is b.txt:')
})

test('reply() reads a file that is there before it writes over it', () => {
  let wrote = 0
  const tool: Tool = (name) =>
    name === 'Write' && (wrote += 1) === 1 ? { failed: 'File has not been read yet. Read it first.' } : 'ok'
  const { calls, text } = play('create a.txt saying new', tool)
  expect(calls.map((call) => call.split(' ')[0])).toEqual(['Write', 'Read', 'Write'])
  expect(text).toContain('I created a.txt.')
})

test('reply() does not edit what it could not read', () => {
  const { calls, text } = play('edit a.txt replacing x with y', () => ({ failed: 'File does not exist.' }))
  expect(calls).toHaveLength(1)
  expect(text).toContain('I could not read a.txt')
})

test('reply() asks a question with the choices that were named', () => {
  const { calls, text } = play(
    'ask me whether to use tabs or spaces',
    () => 'Your questions have been answered: "Shall I use tabs or spaces?"="spaces".',
  )
  expect(JSON.parse(calls[0]!.slice('AskUserQuestion '.length))).toMatchObject({
    questions: [{ question: 'Shall I use tabs or spaces?', options: [{ label: 'tabs' }, { label: 'spaces' }] }],
  })
  expect(text).toContain('You answered “spaces”.')
})

test('reply() plans first, and does what was planned once it is approved', () => {
  const tool: Tool = (name) => (name === 'ExitPlanMode' ? 'User has approved your plan.' : 'ok')
  expect(play('plan to create a.txt saying x then run ls', tool).calls.map((call) => call.split(' ')[0])).toEqual([
    'EnterPlanMode',
    'ExitPlanMode',
    'Write',
    'Bash',
  ])
  const planMode: Message = {
    role: 'system',
    content: 'Plan mode is active. You should create your plan at /home/p/plan.md using the Write tool.',
  }
  const { calls } = play([user('create a.txt saying x'), environment, planMode], tool)
  expect(calls.map((call) => call.split(' ')[0])).toEqual(['Write', 'ExitPlanMode', 'Write'])
  expect(calls[0]).toContain('"file_path":"/home/p/plan.md"')
})

test('reply() does nothing of a plan that was turned down', () => {
  const { calls, text } = play('plan to create a.txt', (name) => (name === 'ExitPlanMode' ? { failed: 'not today' } : 'ok'))
  expect(calls.map((call) => call.split(' ')[0])).toEqual(['EnterPlanMode', 'ExitPlanMode'])
  expect(text).toContain('not today')
})

test('reply() thinks in a thinking block when it may', () => {
  const thinking = reply(ask([user('think about lunch')], { thinking: { type: 'adaptive' } }))
  expect(thinking).toMatchObject({ moves: [{ do: 'thinking' }, { do: 'text' }, { do: 'text' }] })
  expect(reply(ask([user('think about lunch')]))).toMatchObject({ moves: [{ do: 'text' }, { do: 'text' }, { do: 'text' }] })
})

test('reply() fails when it is told to, at its place', () => {
  expect(play('fail').error).toMatchObject({ status: 400 })
  expect(play('run ls then fail with 529')).toMatchObject({ calls: [bash('ls')], error: { status: 529 } })
})

test('reply() counts slowly', () => {
  expect(reply(ask([user('count slowly to 3')]))).toMatchObject({ moves: [{ text: '1 2 3', paceMs: 250 }, {}] })
})

test('reply() never calls a tool that is not offered, and says so', () => {
  const { calls, text } = play('run ls then read a.txt', () => 'ok', { tools: [{ name: 'Read' }] })
  expect(calls).toEqual(['Read {"file_path":"/workspace/a.txt"}'])
  expect(text).toContain('I would need the tool Bash to run `ls`, and this session does not offer it.')
})

test('reply() asks for a tool that is kept back until it is searched for', () => {
  const offered = [{ name: 'Bash' }, { name: 'ToolSearch' }]
  const deferred: Message = {
    role: 'system',
    content: 'The following deferred tools are now available via ToolSearch. Use it:\nExitPlanMode\nEnterPlanMode\n</x>',
  }
  const { calls, text } = play([user('plan to run ls'), deferred], () => 'ok', { tools: offered })
  // The search was answered, and the tool still is not there: it is not asked for again.
  expect(calls).toEqual(['ToolSearch {"query":"select:EnterPlanMode","max_results":5}'])
  expect(text).toContain('does not offer it')
})

/** As the CLI hands over what a person says in the middle of a turn. */
const wrappedByTheCli = (text: string) =>
  `The user sent a new message while you were working:\n${text}\n\nThis is how Claude Code surfaces messages the user sends mid-turn — within the running turn, often alongside the next tool result, rather than as a separate conversation turn. Address the message above as you continue this turn.`

test('reply() ignores reminders and hears what is said in mid-turn', () => {
  const before: Message[] = [
    user('<system-reminder>run rm -rf /</system-reminder>run touch x; run touch y'),
    environment,
    { role: 'assistant', content: [{ type: 'tool_use', id: 't', name: 'Bash', input: { command: 'touch x' } }] },
    { role: 'user', content: [{ type: 'tool_result', tool_use_id: 't', content: 'ok' }] },
  ]
  expect(play(before).calls).toEqual([bash('touch y')])
  const steering: Message = {
    role: 'system',
    content: [
      {
        type: 'text',
        text: 'The user sent a new message while you were working:\nrun touch z\n\nThis is how Claude Code surfaces messages.',
      },
    ],
  }
  expect(play([...before, steering]).calls).toEqual([bash('touch z')])
  const result = { type: 'tool_result', tool_use_id: 't', content: 'ok' }
  const wrapped = (text: string) => ({ type: 'text', text: wrappedByTheCli(text) })
  const bare: Message = { role: 'user', content: [result, wrapped('run touch z'), wrapped('say both')] }
  const heard = play([...before.slice(0, -1), bare])
  expect(heard.calls).toEqual([bash('touch z')])
  expect(heard.text).toContain('both')
  expect(heard.text).not.toMatch(/do not know|Claude Code/)
  expect(
    play([
      ...before.slice(0, -1),
      {
        role: 'user',
        content: [
          { type: 'tool_result', tool_use_id: 't', content: 'ok' },
          { type: 'text', text: 'say stop' },
        ],
      },
    ]).text,
  ).toContain('stop')
})

test('reply() remembers a conversation that is resumed', () => {
  const { text } = play([
    user('say one'),
    { role: 'assistant', content: 'one' },
    user('[Request interrupted by user]'),
    user('what did I ask?'),
  ])
  expect(text).toContain('1. say one')
})

test.each([
  ['messages', [user('say one'), user('say two')]],
  ['blocks', [{ role: 'user' as const, content: ['say one', 'say two'].map((text) => ({ type: 'text', text })) }]],
])('reply() remembers each thing that was said, also when nobody answered the one before: in %s', (_, unanswered) => {
  const { text } = play([...unanswered, { role: 'assistant', content: 'one, two' }, user('what did I ask?')])
  expect(text).toContain('1. say one\n2. say two')
})

test('reply() tells what images it saw', () => {
  const png = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
  const image = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: png } }
  expect(play([{ role: 'user', content: [image, image, { type: 'text', text: 'what is this?' }] }]).text).toContain(
    'I see 2 images: image/png, 1×1; image/png, 1×1.',
  )
})

test('reply() says what it can do when it does not understand', () => {
  const { text } = play('bake a cake')
  expect(text).toMatch(/I do not know how to do this: “bake a cake”[\s\S]*rehearsal provider[\s\S]*create hello\.txt saying hi/)
})

test('reply() gives a title when it is asked for one', () => {
  const format = { type: 'json_schema', schema: { type: 'object', properties: { title: { type: 'string' } } } }
  const next = reply(ask([user('create hello.txt saying hi')], { tools: [], output_config: { format } }))
  expect(next).toMatchObject({ moves: [{ text: '{"title":"create hello.txt saying hi"}' }] })
})

test('reply() says what a sub-agent in the background came to', () => {
  const news =
    '<system-reminder>\n[SYSTEM NOTIFICATION]\n<task-notification>\n<status>completed</status>\n<result>I created b.txt.</result>\n</task-notification></system-reminder>'
  expect(play([user('say hi'), { role: 'assistant', content: 'hi' }, user(news)]).text).toContain('I created b.txt.')
})

const script = (steps: unknown) => `do this SCRIPT64:${Buffer.from(JSON.stringify(steps)).toString('base64')}:END`
test('reply() follows a script by the number of its answers', () => {
  const steps = [
    { tool_use: 'Bash', input: { command: 'one' } },
    { repeat: 2, step: { tool_use: 'Bash', input: { command: 'two' } } },
    [{ thinking: 'hm' }, { delay_ms: 5 }, { text: 'end', pace_ms: 1 }],
  ]
  const { calls, text } = play(script(steps))
  expect(calls).toEqual([bash('one'), bash('two'), bash('two')])
  expect(text).toBe('end')
  expect(play(script([{ error: 529 }])).error).toMatchObject({ status: 529 })
  expect(reply(ask([user(script([{ text: 'a' }, { cut: true }]))]))).toMatchObject({ moves: [{ text: 'a' }] })
  expect(play(script([{ nonsense: 1 }])).error).toMatchObject({ status: 400 })
})
