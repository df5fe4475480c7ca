import { RequestAction, type RequestAnswer } from '@anchorhold/protocol/events'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { toolChecks } from './tool-use.ts'

/** What a person would be asked, and what the agent would hear when the answer is this. */
async function use(tool: string, input: Record<string, unknown>, answer: RequestAnswer = { decision: 'allow' }) {
  const asked: RequestAction[] = []
  const heard = {
    ask: async (action: RequestAction) => {
      asked.push(RequestAction.parse(action))
      return answer
    },
    mayRun: async (name: string) => (name === 'Bash' ? ({ allow: true } as const) : ({ allow: false, why: 'Not now' } as const)),
  }
  const { canUseTool } = toolChecks(heard, { netTools: true })
  const given = await canUseTool(tool, input, { signal: new AbortController().signal, toolUseID: 'call', requestId: 'request' })
  return { asked, given }
}

const questions = [
  {
    question: 'Which?',
    header: 'Choice',
    multiSelect: true,
    options: [{ label: 'A', description: 'the first' }, { label: 'B' }],
  },
]

test('canUseTool() asks a question of people and gives the agent their answers', async () => {
  const { asked, given } = await use('AskUserQuestion', { questions }, { decision: 'allow', answers: { 'Which?': 'A' } })
  expect(asked).toEqual([
    {
      kind: 'question',
      questions: [
        {
          question: 'Which?',
          header: 'Choice',
          multi: true,
          options: [{ label: 'A', description: 'the first' }, { label: 'B' }],
        },
      ],
    },
  ])
  expect(given).toEqual({ behavior: 'allow', updatedInput: { questions, answers: { 'Which?': 'A' } } })
})

test.each([
  ['AskUserQuestion', { decision: 'deny' }, 'The user does not want to answer'],
  ['AskUserQuestion', { decision: 'withdrawn', reason: 'The turn ended' }, 'The turn ended'],
  ['ExitPlanMode', { decision: 'deny' }, 'The user does not approve the plan'],
  ['ExitPlanMode', { decision: 'deny', reason: 'Too bold' }, 'Too bold'],
] as const)('canUseTool() refuses %s when the answer is %j', async (tool, answer, message) => {
  expect((await use(tool, { questions, plan: 'p' }, answer)).given).toEqual({ behavior: 'deny', message })
})

test('canUseTool() asks people to approve a plan, and refuses one that nobody could be shown whole', async () => {
  expect(await use('ExitPlanMode', { plan: 'Do it' })).toMatchObject({ asked: [{ plan: 'Do it' }], given: { behavior: 'allow' } })
  expect(await use('ExitPlanMode', { plan: 'x'.repeat(200_001) })).toMatchObject({ asked: [], given: { behavior: 'deny' } })
})

test('canUseTool() leaves every other tool to the keeper', async () => {
  expect((await use('Bash', { command: 'ls' })).given).toEqual({ behavior: 'allow', updatedInput: { command: 'ls' } })
  expect((await use('Write', {})).given).toEqual({ behavior: 'deny', message: 'Not now' })
})

test('canUseTool() reads a question of any shape', async () => {
  const shape = fc.dictionary(
    fc.constantFrom('questions', 'question', 'header', 'options', 'label', 'plan'),
    fc.oneof(fc.jsonValue(), fc.array(fc.dictionary(fc.constantFrom('question', 'options', 'label'), fc.jsonValue()))),
  )
  await fc.assert(
    fc.asyncProperty(fc.constantFrom('AskUserQuestion', 'ExitPlanMode'), shape, async (tool, input) => {
      expect((await use(tool, input)).asked).toHaveLength(1)
    }),
  )
})

async function before(tool: string, verdict: { allow: true } | { allow: false; why: string }, netTools = true) {
  const heard = { ask: async () => ({ decision: 'deny' }) as const, mayRun: async () => verdict }
  const { preToolUse, canUseTool } = toolChecks(heard, { netTools })
  const { signal } = new AbortController()
  const input = { hook_event_name: 'PreToolUse', tool_name: tool, tool_input: { a: 1 }, tool_use_id: 'call' } as never
  const decided = (await preToolUse.hooks[0]!(input, 'call', { signal })) as { hookSpecificOutput: object }
  return { ...decided.hookSpecificOutput, asked: await canUseTool(tool, { a: 1 }, { signal, toolUseID: 'call', requestId: 'r' }) }
}

test('toolChecks() judges every tool before it runs, and what was allowed not again', async () => {
  expect(await before('Read', { allow: true })).toMatchObject({ permissionDecision: 'allow', asked: { behavior: 'allow' } })
  const denied = { permissionDecision: 'deny', permissionDecisionReason: 'Not now', asked: { behavior: 'deny' } }
  expect(await before('Read', { allow: false, why: 'Not now' })).toMatchObject(denied)
  expect(await before('AskUserQuestion', { allow: true })).toMatchObject({ permissionDecision: 'ask' })
})

test('toolChecks() lets nothing pass under the name of a tool that this session has not got', async () => {
  const denied = { permissionDecision: 'deny', asked: { behavior: 'deny' } }
  expect(await before('mcp__anchorhold__web_fetch', { allow: true })).toMatchObject({ permissionDecision: 'allow' })
  expect(await before('mcp__anchorhold__web_fetch', { allow: true }, false)).toMatchObject(denied)
  expect(await before('Read', { allow: true }, false)).toMatchObject({ permissionDecision: 'allow' })
})

test('toolChecks() blocks a tool when the check itself fails', () => {
  expect(toolChecks({} as never, { netTools: true }).preToolUse).toMatchObject({ onFailure: 'block' })
})

/** Checks that allow everything, and the calls that they were told of. */
function noting() {
  const told: (string | null)[] = []
  const heard = {
    ask: async (_: RequestAction, call: string | null) => (told.push(call), { decision: 'allow' } as const),
    mayRun: async (_: string, __: unknown, call: string) => (told.push(call), { allow: true } as const),
  }
  const { preToolUse, canUseTool } = toolChecks(heard, { netTools: true })
  const { signal } = new AbortController()
  return {
    told,
    before: (id: unknown) =>
      preToolUse.hooks[0]!({ tool_name: 'Read', tool_input: {}, tool_use_id: id } as never, id as string, { signal }),
    ask: (tool: string, id: unknown) => canUseTool(tool, {}, { signal, toolUseID: id as string, requestId: 'r' }),
  }
}

test('toolChecks() tells of a call by no more of its id than events have, whatever came as one', async () => {
  const { told, before, ask } = noting()
  for (const id of ['x'.repeat(5_000_000), { not: 'a string' }]) {
    await before(id)
    for (const tool of ['Bash', 'AskUserQuestion', 'ExitPlanMode']) await ask(tool, id)
  }
  expect(told).toEqual([...Array.from({ length: 4 }, () => 'x'.repeat(200)), '', '', '', ''])
})

test('toolChecks() says where the shell stands, where that is known', async () => {
  const folders: (string | undefined)[] = []
  const mayRun = async (_: string, __: unknown, ___: string, ____: AbortSignal, folder?: string) => {
    folders.push(folder)
    return { allow: true } as const
  }
  const { preToolUse } = toolChecks({ ask: async () => ({ decision: 'deny' }) as const, mayRun }, { netTools: false })
  for (const cwd of ['/workspace/sub', undefined, '', 'sub', { not: 'a string' }]) {
    const input = { tool_name: 'Read', tool_input: {}, tool_use_id: 'c', cwd } as never
    await preToolUse.hooks[0]!(input, 'c', { signal: new AbortController().signal })
  }
  expect(folders).toEqual(['/workspace/sub', undefined, undefined, undefined, undefined])
})

test('toolChecks() takes no call for one that was allowed because they begin alike', async () => {
  const { told, before, ask } = noting()
  await before(`${'x'.repeat(200)}a`)
  await ask('Read', `${'x'.repeat(200)}b`)
  await ask('Read', 'x'.repeat(200))
  expect(told).toHaveLength(3)
})

test('toolChecks() judges a call again that is not the one that was allowed', async () => {
  const judged: unknown[] = []
  const heard = {
    ask: async () => ({ decision: 'deny' }) as const,
    async mayRun(tool: string, input: Readonly<Record<string, unknown>>) {
      judged.push([tool, input])
      return input.command === 'ls' && tool === 'Bash' ? ({ allow: true } as const) : ({ allow: false, why: 'Not now' } as const)
    },
  }
  const { signal } = new AbortController()
  for (const [tool, command, behavior] of [
    ['Bash', 'ls', 'allow'],
    ['Bash', 'git push', 'deny'],
    ['Other', 'ls', 'deny'],
  ] as const) {
    const { preToolUse, canUseTool } = toolChecks(heard, { netTools: true })
    await preToolUse.hooks[0]!({ tool_name: 'Bash', tool_input: { command: 'ls' }, tool_use_id: 'c' } as never, 'c', { signal })
    expect(await canUseTool(tool, { command }, { signal, toolUseID: 'c', requestId: 'r' })).toMatchObject({ behavior })
  }
  expect(judged).toHaveLength(5)
})

test('toolChecks() remembers the newest of what was allowed, and judges the rest again', async () => {
  const { told, before, ask } = noting()
  for (let n = 1; n <= 1010; n++) await before(`call ${n}`)
  for (let n = 1; n <= 1010; n++) await ask('Read', `call ${n}`)
  expect(told.slice(1010)).toEqual(Array.from({ length: 10 }, (_, n) => `call ${n + 1}`))
})
