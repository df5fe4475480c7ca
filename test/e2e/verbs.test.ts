import type { Event } from '@anchorhold/protocol/events'
import type { RequestId, SessionId } from '@anchorhold/protocol/ids'
import type { CreateSession } from '@anchorhold/protocol/api'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { keepersOf, stillAlive } from './host.ts'
import { type Installation, installation, outputsOf, script, textOf, until } from './installation.ts'

let it: Installation
const scratch = mkdtempSync(join(tmpdir(), 'ah-verbs-'))
beforeAll(async () => {
  const gitconfig = join(scratch, 'gitconfig')
  writeFileSync(gitconfig, '[user]\n\tname = Julian \\"of\\" Norwich\n\temail = julian@example.org\n')
  it = await installation({ env: { GIT_CONFIG_GLOBAL: gitconfig } })
})
afterAll(async () => {
  await it[Symbol.asyncDispose]()
  rmSync(scratch, { recursive: true })
})

// An agent that rests still takes memory: two cores have better things to do.
afterEach(async () => {
  const { sessions } = await it.api.listSessions({ query: { limit: 500 } })
  await Promise.all(sessions.map(({ id }) => it.api.archive({ params: { id } }).catch(() => {})))
})

/** The same verbs by both doors: whatever one can do, so can the other. */
type Verb = 'interrupt' | 'pause' | 'resume' | 'stop' | 'start' | 'archive'
interface Door {
  readonly name: string
  create(options: CreateSession): Promise<SessionId>
  verb(verb: Verb, id: SessionId): Promise<void>
  /** Stores a prompt and returns. */
  send(id: SessionId, text: string, options?: { readonly queue?: true; readonly png?: string }): Promise<void>
  requests(): Promise<string>
  answer(id: RequestId, answer: { readonly allow: string | null } | { readonly deny: string }): Promise<void>
  fork(id: SessionId): Promise<SessionId>
  purge(id: SessionId, confirm: string): Promise<boolean>
  search(words: string, session: SessionId): Promise<string>
  usage(id: SessionId): Promise<{ readonly calls: number; readonly simulated: number }>
  budget(id: SessionId, usd: string | null): Promise<void>
  model(id: SessionId, model: string): Promise<void>
  panic(): Promise<number>
}

const cli: Door = {
  name: 'cli',
  async create({ prompt, ...options }) {
    const flags = Object.entries({
      '--workspace': options.workspace,
      '--name': options.name,
      '--tools': options.tools?.join(','),
      '--system-prompt': options.system_prompt,
      '--timeout': options.timeout_ms === undefined ? undefined : String(options.timeout_ms / 1000),
      '--budget': options.budget_micros === undefined ? undefined : String(options.budget_micros / 1e6),
    }).flatMap(([flag, value]) => (value === undefined ? [] : [flag, value]))
    const plain = [...(options.plan ? ['--plan'] : []), ...(options.workspace_settings === 'load' ? ['--load-settings'] : [])]
    const out = await ok(['run', '--detach', ...plain, ...flags, prompt!.text])
    return out.trim() as SessionId
  },
  async verb(verb, id) {
    await ok([verb, id])
  },
  async send(id, text, options = {}) {
    const more = [...(options.queue ? ['--queue'] : []), ...(options.png === undefined ? [] : ['--image', options.png])]
    await ok(['send', '--detach', ...more, id, text])
  },
  requests: () => ok(['requests']),
  async answer(id, answer) {
    if ('deny' in answer) await ok(['deny', id, '--reason', answer.deny])
    else await ok(['allow', id, ...(answer.allow === null ? [] : ['--answer', answer.allow])])
  },
  fork: async (id) => (await ok(['fork', id])).trim() as SessionId,
  purge: async (id, confirm) => (await it.cli(['purge', id, '--confirm', confirm])).code === 0,
  search: (words, session) => ok(['search', '--session', session, words]),
  async usage(id) {
    const spent = JSON.parse(await ok(['usage', '--json', id])) as { total: { calls: number }; simulated: { calls: number } }
    return { calls: spent.total.calls, simulated: spent.simulated.calls }
  },
  async budget(id, usd) {
    await ok(['budget', id, usd ?? 'none'])
  },
  async model(id, model) {
    await ok(['model', id, model])
  },
  panic: async () => Number(/^(\d+) sessions? w/.exec(await ok(['panic']))?.[1]),
}

const http: Door = {
  name: 'http',
  create: async (body) => (await it.api.createSession({ body })).id,
  async verb(verb, id) {
    await it.api[verb]({ params: { id } })
  },
  async send(id, text, { queue, png } = {}) {
    const images = png === undefined ? [] : [{ media_type: 'image/png' as const, data: readFileSync(png).toString('base64') }]
    await it.api.prompt({ params: { id }, body: { text, images, ...(queue ? { mode: 'queue' as const } : {}) } })
  },
  requests: async () => JSON.stringify(await it.api.listRequests()),
  async answer(id, answer) {
    const { action } = await it.api.getRequest({ params: { id } })
    const question = action.kind === 'question' ? action.questions[0] : undefined
    const body =
      'deny' in answer
        ? { decision: 'deny' as const, reason: answer.deny }
        : {
            decision: 'allow' as const,
            ...(question === undefined
              ? {}
              : { answers: { [question.question]: question.options[Number(answer.allow) - 1]!.label } }),
          }
    await it.api.answerRequest({ params: { id }, body })
  },
  fork: async (id) => (await it.api.fork({ params: { id } })).id,
  purge: (id, confirm) =>
    it.api.purgeSession({ params: { id }, body: { confirm } }).then(
      () => true,
      () => false,
    ),
  search: async (q, session) => JSON.stringify(await it.api.search({ query: { q, session } })),
  async usage(session) {
    const spent = await it.api.usage({ query: { session } })
    return { calls: spent.total.calls, simulated: spent.simulated.calls }
  },
  async budget(id, usd) {
    await it.api.changeSession({ params: { id }, body: { budget_micros: usd === null ? null : Math.round(Number(usd) * 1e6) } })
  },
  async model(id, model) {
    await it.api.changeSession({ params: { id }, body: { model } })
  },
  panic: async () => (await it.api.panic()).sessions,
}
const doors = [cli, http] as const

async function ok(args: readonly string[]): Promise<string> {
  const { code, out, err } = await it.cli(args)
  if (code !== 0) throw new Error(`anchorhold ${args.join(' ')}: ${code} ${out}${err}`)
  return out
}
const session = (id: SessionId) => it.api.getSession({ params: { id } })
const last = async (id: SessionId) => (await session(id)).last_seq
const ended = (event: Event) => event.type === 'turn.ended'
const reason = (event: Event) => (event.type === 'turn.ended' ? event.body.reason : null)
const lines = (events: readonly Event[], ...types: readonly Event['type'][]) =>
  events.map(({ type }) => type).filter((type) => types.includes(type))
/** A command that runs until the file `go` is there, so that a test decides how long a tool takes. */
const held = 'until [ -e go ]; do sleep 0.02; done'
const letGo = (workspace: string) => writeFileSync(join(workspace, 'go'), '')
/** A session at work: its tool runs and waits for `letGo`. */
async function busy(door: Door, then = ''): Promise<{ readonly id: SessionId; readonly workspace: string }> {
  const workspace = it.workspace()
  const id = await door.create({ workspace, prompt: { text: `run \`${held}\`${then}` } })
  await it.event(id, 0, ({ type }) => type === 'tool.started')
  return { id, workspace }
}
async function request(id: SessionId, after: number): Promise<Event & { type: 'request.opened' }> {
  return (await it.event(id, after, ({ type }) => type === 'request.opened')) as Event & { type: 'request.opened' }
}
/** All that happened in the session once the running turn has ended. */
async function afterTurn(id: SessionId, after: number): Promise<Event[]> {
  await it.event(id, after, ended)
  return (await it.log(id)).filter(({ seq }) => seq > after)
}
/** A whole turn of another session: time enough for anything that was going to happen. */
const meanwhile = () => it.run('run true')

describe.each(doors)('by $name', (door) => {
  test('interrupt ends the turn, and the next prompt is taken up', async () => {
    const { id } = await busy(door)
    const before = await last(id)
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, before, ended))).toBe('interrupted')
    expect(textOf(await it.turn(id, 'say after that'))).toContain('after that')
    expect(await session(id)).toMatchObject({ state: 'ready', turns: 2 })
  })

  test('a prompt in mid-turn steers it; a queued one waits for its end', async () => {
    const { id, workspace } = await busy(door)
    await door.send(id, 'say I was queued', { queue: true })
    await door.send(id, 'say I was steered')
    // The one that steers has been handed over; the one in the queue has not, though it came first.
    await it.event(id, 0, (event) => event.type === 'prompt' && event.body.text.includes('steered'))
    expect(lines(await it.log(id), 'prompt', 'turn.started', 'turn.ended')).toEqual(['prompt', 'turn.started', 'prompt'])
    letGo(workspace)
    await it.event(id, 0, (event) => event.type === 'text' && event.body.text.includes('I was queued'))
    const log = await until(async () => {
      const all = await it.log(id)
      return all.filter(ended).length === 2 ? all : null
    })
    expect(lines(log, 'prompt', 'turn.started', 'turn.ended')).toEqual([
      ...['prompt', 'turn.started', 'prompt', 'turn.ended'],
      ...['prompt', 'turn.started', 'turn.ended'],
    ])
    expect(log.filter(ended).map(reason)).toEqual(['done', 'done'])
    const [first, second] = [log.findIndex(ended), log.findLastIndex(ended)]
    expect(textOf(log.slice(0, first))).toContain('I was steered')
    expect(textOf(log.slice(first, second))).toContain('I was queued')
  })

  test('a question is answered, or refused with a reason that the agent reads', async () => {
    const id = await door.create({ prompt: { text: 'ask me whether to use tabs or spaces' } })
    const first = await request(id, 0)
    expect(await session(id)).toMatchObject({ state: 'waiting', open_requests: 1 })
    expect(await door.requests()).toContain(first.body.id)
    expect(await door.requests()).toContain('spaces')
    await door.answer(first.body.id, { allow: '2' })
    expect(textOf(await afterTurn(id, 0))).toContain('You answered “spaces”')
    await expect(door.answer(first.body.id, { allow: '1' })).rejects.toThrow('settled already')
    expect(await door.requests()).not.toContain(first.body.id)

    const before = await last(id)
    await door.send(id, 'ask me whether to use tabs or spaces')
    await door.answer((await request(id, before)).body.id, { deny: 'the moon is full' })
    expect(textOf(await afterTurn(id, before))).toContain('the moon is full')
    expect(await session(id)).toMatchObject({ state: 'ready', open_requests: 0 })
  })

  test('a plan is carried out when it is allowed, and not when it is denied', async () => {
    const workspace = it.workspace()
    const id = await door.create({ workspace, plan: true, prompt: { text: 'create first.txt saying hi' } })
    const first = await request(id, 0)
    expect(first.body.action).toMatchObject({ kind: 'plan', plan: expect.stringContaining('create first.txt') as string })
    expect(existsSync(join(workspace, 'first.txt'))).toBe(false)
    await door.answer(first.body.id, { deny: 'not on a Sunday' })
    expect(textOf(await afterTurn(id, 0))).toContain('not on a Sunday')
    expect(existsSync(join(workspace, 'first.txt'))).toBe(false)

    const before = await last(id)
    await door.send(id, 'plan to create second.txt saying hi')
    await door.answer((await request(id, before)).body.id, { allow: null })
    const log = await afterTurn(id, before)
    expect(reason(log.findLast(ended)!)).toBe('done')
    expect(readFileSync(join(workspace, 'second.txt'), 'utf8')).toBe('hi\n')
  })

  test('an image reaches the agent; an interrupted question is withdrawn', async () => {
    const png = join(scratch, 'two-by-three.png')
    writeFileSync(
      png,
      Buffer.from(
        'iVBORw0KGgoAAAANSUhEUgAAAAIAAAADCAIAAAA2iEnWAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==',
        'base64',
      ),
    )
    const id = await door.create({ prompt: { text: 'say hello' } })
    await it.event(id, 0, ended)
    const before = await last(id)
    await door.send(id, 'say what this is', { png })
    const log = await afterTurn(id, before)
    expect(textOf(log)).toContain('I see one image: image/png, 2×3')
    expect(log.find(({ type }) => type === 'prompt')).toMatchObject({ body: { images: 1 } })

    const asked = await last(id)
    await door.send(id, 'ask me whether to go on')
    const { body } = await request(id, asked)
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, asked, ended))).toBe('interrupted')
    expect(await it.api.getRequest({ params: { id: body.id } })).toMatchObject({ answer: { decision: 'withdrawn' } })
    await expect(door.answer(body.id, { deny: 'too late' })).rejects.toThrow('settled already')
  })

  test('while paused no model call and no tool starts; what ran ends; resume goes on', async () => {
    const { id, workspace } = await busy(door, ' then run `touch second`')
    await door.verb('pause', id)
    letGo(workspace)
    const finished = await it.event(id, 0, ({ type }) => type === 'tool.finished')
    await meanwhile()
    const quiet = (await it.log(id)).filter(({ seq }) => seq > finished.seq)
    expect(lines(quiet, 'tool.started', 'usage', 'text', 'turn.ended')).toEqual([])
    expect(await session(id)).toMatchObject({ state: 'paused' })
    expect(existsSync(join(workspace, 'second'))).toBe(false)
    await door.verb('resume', id)
    expect(reason(await it.event(id, finished.seq, ended))).toBe('done')
    expect(existsSync(join(workspace, 'second'))).toBe(true)
  })

  test('a pause outlasts the turn that it found, and an interrupted one', async () => {
    const id = await door.create({ prompt: { text: script([{ text: 'one two three four five', pace_ms: 100 }]) } })
    await it.follow(id, 0, ({ live }) => live?.type === 'text.delta')
    await door.verb('pause', id)
    expect(reason(await it.event(id, 0, ended))).toBe('done')
    expect(await session(id)).toMatchObject({ state: 'paused' })
    const before = await last(id)
    await door.send(id, 'run `echo $((6 * 7))`')
    await it.event(id, before, ({ type }) => type === 'turn.started')
    await meanwhile()
    expect(
      lines(
        (await it.log(id)).filter(({ seq }) => seq > before),
        'usage',
        'tool.started',
      ),
    ).toEqual([])
    await door.verb('interrupt', id)
    expect(reason(await it.event(id, before, ended))).toBe('interrupted')
    expect(await session(id)).toMatchObject({ state: 'paused' })
    await door.verb('resume', id)
    expect(await session(id)).toMatchObject({ state: 'ready' })
    expect(outputsOf(await it.turn(id, 'run `echo $((6 * 8))`'))).toContain('48')
  })

  test('stop ends the cell and keeps the conversation; fork goes on from it in a copy', async () => {
    const { id, workspace } = await busy(door)
    const cell = keepersOf(it.state, id)
    expect(cell.length).toBeGreaterThan(2)
    await door.verb('stop', id)
    expect(await session(id)).toMatchObject({ state: 'stopped' })
    await until(() => stillAlive(cell).length === 0)
    expect((await it.log(id)).filter(ended).map(reason)).toEqual(['interrupted'])
    await expect(door.send(id, 'say no')).rejects.toThrow('it is stopped')
    await door.verb('start', id)
    letGo(workspace)
    const recall = await it.turn(id, 'what did I ask you')
    expect(textOf(recall), JSON.stringify(recall)).toContain(held)

    const fork = await door.fork(id)
    expect(await session(fork)).toMatchObject({ state: 'ready', forked_from: id })
    const recalled = await it.turn(fork, 'what did I ask you, then run `ls` and create only-in-fork saying x')
    expect(textOf(recalled)).toContain(held)
    expect(outputsOf(recalled)).toContain('go')
    expect(existsSync(join(workspace, 'only-in-fork'))).toBe(false)
    expect(textOf(await it.turn(id, 'what did I ask you'))).not.toContain('only-in-fork')
  })

  test('an archived session is read-only, and purged only on confirmation', async () => {
    const id = await door.create({ prompt: { text: 'say farewell' }, name: 'short-lived' })
    await it.event(id, 0, ended)
    expect(await door.purge(id, id)).toBe(false)
    await door.verb('archive', id)
    expect(await session(id)).toMatchObject({ state: 'archived' })
    expect((await it.api.listSessions()).sessions.map((one) => one.id)).not.toContain(id)
    expect(await ok(['ls', '--archived'])).toContain(id)
    await expect(door.send(id, 'say no')).rejects.toThrow('it is archived')
    await expect(door.verb('start', id)).rejects.toThrow('it is archived')
    expect(textOf(await it.log(id))).toContain('farewell')
    expect(await door.purge(id, 'ses_0000000000000000')).toBe(false)
    expect(existsSync(join(it.state, 'sessions', id))).toBe(true)
    expect(await door.purge(id, id)).toBe(true)
    await expect(session(id)).rejects.toThrow('There is no session')
    expect(existsSync(join(it.state, 'sessions', id))).toBe(false)
    expect((await it.api.search({ query: { q: 'farewell' } })).hits.filter((hit) => hit.session === id)).toEqual([])
  })

  test('search, usage, model, budget and name', async () => {
    const id = await door.create({ prompt: { text: 'run `echo xylophone-$((40 + 2))`' }, name: 'a named one' })
    await it.event(id, 0, ended)
    const found = await door.search('xylophone-42', id)
    expect(found).toContain('«xylophone')
    expect(found).toContain('tool.finished')
    expect(await door.search('glockenspiel', id)).not.toContain('«')
    const { simulated, calls } = await door.usage(id)
    expect(simulated).toBe((await it.log(id)).filter(({ type }) => type === 'usage').length)
    expect(calls).toBe(0)
    expect(await session(id)).toMatchObject({ name: 'a named one', simulated: true })

    await door.model(id, 'rehearsal-2')
    const changed = await it.turn(id, 'say changed')
    expect(changed.find(({ type }) => type === 'usage')).toMatchObject({ body: { model: 'rehearsal-2' } })

    await door.budget(id, '0.000001')
    const refused = await it.turn(id, 'run `touch must-not-be`')
    expect(reason(refused.findLast(ended)!)).toBe('budget')
    expect(lines(refused, 'tool.started', 'usage')).toEqual([])
    await door.budget(id, null)
    expect(reason((await it.turn(id, 'say paid')).findLast(ended)!)).toBe('done')
  })

  test('a session has the tools, the system prompt and the time that it was given', async () => {
    const [toolless, told, timed] = await Promise.all([
      door.create({ tools: ['Read'], prompt: { text: 'run `echo no`' } }),
      door.create({ system_prompt: 'Contents of /AGENTS.md:\n\nSpeak of herrings', prompt: { text: 'show your instructions' } }),
      door.create({ timeout_ms: 1000, prompt: { text: `run \`${held}\`` } }),
    ])
    const [without, instructed, late] = await Promise.all([toolless, told, timed].map((id) => afterTurn(id, 0)))
    expect(textOf(without!)).toContain('I would need the tool Bash')
    expect(lines(without!, 'tool.started')).toEqual([])
    expect(textOf(instructed!)).toContain('Speak of herrings')
    expect(late!.findLast(ended)).toMatchObject({
      body: { reason: 'interrupted', why: expect.stringContaining('1000 ms') as string },
    })
  })

  test('what a sub-agent says and does carries the call that started it', async () => {
    const id = await door.create({ prompt: { text: 'start a sub-agent to run `echo from-$((1 + 1))-below`' } })
    const log = await afterTurn(id, 0)
    const start = log.find((event) => event.type === 'tool.started' && ['Agent', 'Task'].includes(event.body.tool))
    const call = start?.type === 'tool.started' ? start.body.call : ''
    const below = log.filter((event) => 'parent' in event.body && event.body.parent === call)
    expect(lines(below, 'tool.started', 'tool.finished')).toEqual(['tool.started', 'tool.finished'])
    expect(outputsOf(below)).toContain('from-2-below')
    expect(textOf(log)).toContain('The sub-agent said:')
  })

  test('CLAUDE.md and AGENTS.md reach the agent; settings, hooks and MCP servers only when the session asks', async () => {
    const hook = (name: string) => [{ hooks: [{ type: 'command', command: `touch "$CLAUDE_PROJECT_DIR/${name}"` }] }]
    const files = {
      '.claude/settings.json': JSON.stringify({
        env: { CANARY: 'sang' },
        permissions: { deny: ['Bash(ls:*)'], defaultMode: 'bypassPermissions' },
        hooks: {
          SessionStart: hook('hook-1'),
          UserPromptSubmit: hook('hook-2'),
          PreToolUse: hook('hook-3'),
          Stop: hook('hook-4'),
        },
      }),
      '.claude/settings.local.json': JSON.stringify({ hooks: { SessionStart: hook('hook-5') } }),
      '.mcp.json': JSON.stringify({ mcpServers: { evil: { command: '/bin/sh', args: ['-c', 'touch mcp-ran; cat'] } } }),
      'seen.txt': 'x',
    }
    const prompt = { text: 'show your instructions, then run `ls; echo canary=$CANARY.`' }
    const [claude, agents] = [
      it.workspace({ ...files, 'CLAUDE.md': 'Praise the herring.' }),
      it.workspace({ ...files, 'AGENTS.md': 'Praise the kipper.' }),
    ]
    const [one, two] = await Promise.all([
      door.create({ workspace: claude, prompt }),
      door.create({ workspace: agents, prompt, workspace_settings: 'load' }),
    ])
    const [ignoring, loading] = [await afterTurn(one, 0), await afterTurn(two, 0)]
    expect(textOf(ignoring)).toContain('Praise the herring.')
    expect(outputsOf(ignoring)).toContain('canary=.')
    expect(outputsOf(ignoring)).toContain('seen.txt')
    expect(
      ['hook-1', 'hook-2', 'hook-3', 'hook-4', 'hook-5', 'mcp-ran'].filter((name) => existsSync(join(claude, name))),
    ).toEqual([])
    expect(textOf(loading)).toContain('Praise the kipper.')
    // The same hook does run where it is asked for, so its absence above says something.
    expect(existsSync(join(agents, 'hook-2'))).toBe(true)
  })

  test('commits in a cell carry the name of the owner', async () => {
    const id = await door.create({
      prompt: { text: "run `git init -q . && git commit -q --allow-empty -m x && git log -1 --format='%an / %ae'`" },
    })
    expect(outputsOf(await afterTurn(id, 0))).toContain('Julian "of" Norwich / julian@example.org')
  })
})

test('run follows its turn: Ctrl-C interrupts it, and codes say how it ended', async () => {
  const running = it.start(['run', '--name', 'cut', `run \`${held}\``])
  await until(() => running.out.includes('● Bash'))
  running.kill('SIGINT')
  expect(await running.ended).toMatchObject({ code: 130, out: expect.stringContaining('✗ interrupted') as string })
  const [failed, poor, late] = await Promise.all([
    it.cli(['run', 'fail with 400']),
    it.cli(['run', '--budget', '0.000001', 'say hello']),
    it.cli(['run', '--timeout', '1', `run \`${held}\``]),
  ])
  expect(failed).toMatchObject({ code: 1, out: expect.stringContaining('✗ error') as string })
  expect(poor).toMatchObject({ code: 4, out: expect.stringContaining('✗ budget') as string })
  expect(late).toMatchObject({ code: 130 })
})

test.each(doors)('panic by $name stops every session and leaves no process of theirs', async (door) => {
  const ids = await Promise.all([busy(door), busy(door)]).then((all) => all.map(({ id }) => id))
  // One that is only being set up must not escape.
  ids.push((await it.api.createSession({ body: { prompt: { text: `run \`${held}\`` } } })).id)
  const before = keepersOf(it.state)
  expect(await door.panic()).toBeGreaterThanOrEqual(3)
  for (const id of ids)
    expect(await session(id)).toMatchObject({ state: 'stopped', why: expect.stringContaining('Panic') as string })
  await until(() => stillAlive(before).length === 0)
  await meanwhile()
  for (const id of ids) expect(await session(id)).toMatchObject({ state: 'stopped' })
  expect((await it.api.status()).keepers).toBe(1)
  // Each can be started again by hand.
  await door.verb('start', ids[0]!)
  expect(textOf(await it.turn(ids[0]!, 'what did I ask you'))).toContain(held)
})
