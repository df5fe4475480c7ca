import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { access, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { LiveFrame, NewEvent, RequestAction } from '@anchorhold/protocol/events'
import { newPromptId, type PromptId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Cell } from '../cells/cell.ts'
import { cellProcess } from '../cells/cell-process.ts'
import type { Agent, AgentDriver, AgentFiles, AgentListener, AgentResult, AgentStart } from './agent.ts'

/** How an agent is brought to do what every agent can do. */
export type AgentSamples = {
  readonly files: AgentFiles
  /** The program that stands for the agent's where only rubbish is to come out of it. */
  readonly rubbish: string
  /** Serves the agent's model in the folder of windows. */
  model?(windows: string): Promise<AsyncDisposable>
  /** Prompts: to say something, to run a command by its shell, to ask this, to tell what it was asked. */
  readonly say: (words: string) => string
  readonly run: (command: string) => string
  readonly question: string
  readonly recall: string
}

/** Waits for a process of an agent's. */
const patience = { timeout: 30_000 }

/** What every agent promises its keeper: run for each driver, and for one that is in no table. */
export function agentContract(driver: AgentDriver, samples: AgentSamples): void {
  const agents: Agent[] = []
  const ends: (() => unknown)[] = []
  afterEach(async () => {
    for (const agent of agents.splice(0)) await agent[Symbol.asyncDispose]()
    for (const end of ends.splice(0).toReversed()) await end()
  })

  async function place() {
    const base = mkdtempSync(join(tmpdir(), 'agent-'))
    ends.push(() => rmSync(base, { recursive: true, force: true }))
    const [workspace, home, windows] = ['workspace', 'home', 'windows'].map((name) => join(base, name)) as [
      string,
      string,
      string,
    ]
    for (const each of [workspace, home, windows]) mkdirSync(each)
    const model = await samples.model?.(windows)
    if (model !== undefined) ends.push(() => model[Symbol.asyncDispose]())
    return { workspace, home, windows, conversation: crypto.randomUUID() }
  }
  type Place = Awaited<ReturnType<typeof place>>

  async function started(
    at: Place,
    { heard: more = {}, ...how }: Omit<Partial<AgentStart>, 'heard'> & { readonly heard?: Partial<AgentListener> } = {},
  ) {
    const heard = {
      events: [] as NewEvent[],
      live: [] as LiveFrame[],
      states: [] as string[],
      results: [] as AgentResult[],
      asked: [] as RequestAction[],
      mayRun: [] as { readonly tool: string; readonly input: unknown }[],
      gone: [] as string[],
    }
    const cell = plainCell()
    const agent = await driver.start({
      cell,
      files: samples.files,
      ...at,
      model: 'rehearsal-1',
      ...{ resume: false, forgetAfter: [], unfinished: [], takeUp: false, tools: null, systemPrompt: null, plan: false },
      ...{ workspaceSettings: 'ignore', modelRoute: 'socket', network: 'none', trust: null, path: [], env: {} },
      ...how,
      heard: {
        event: (event) => void heard.events.push(event),
        stored: async () => {},
        live: (frame) => void heard.live.push(frame),
        state: (state) => void heard.states.push(state),
        tasks: () => {},
        result: (result) => void heard.results.push(result),
        async ask(action) {
          heard.asked.push(action)
          const answers = action.kind === 'question' ? { [action.questions[0]!.question]: 'the second' } : undefined
          return { decision: 'allow', ...(answers === undefined ? {} : { answers }) }
        },
        async mayRun(tool, input) {
          heard.mayRun.push({ tool, input })
          return { allow: true }
        },
        gone: (why) => void heard.gone.push(why),
        ...more,
      },
    })
    agents.push(agent)
    const send = (text: string): PromptId => {
      const id = newPromptId(randomBytes)
      agent.send({ id, text, images: [] })
      return id
    }
    /** Sends it, and waits until the agent is at rest again. */
    async function turn(text: string): Promise<PromptId> {
      const rested = heard.states.filter((state) => state === 'idle').length
      const id = send(text)
      await vi.waitFor(() => {
        expect(heard.states.filter((state) => state === 'idle').length).toBeGreaterThan(rested)
        expect(heard.results.flatMap(({ prompts }) => prompts)).toContain(id)
      }, patience)
      return id
    }
    const said = () => heard.events.flatMap(({ type, body }) => (type === 'text' ? [body.text] : [])).join('\n')
    return { agent, heard, cell, send, turn, said }
  }

  describe(`the agent ${driver.name}`, { timeout: 120_000 }, () => {
    test('answers a prompt: at work, what it says live and then as it is stored, a result that names the prompt, at rest', async () => {
      const { heard, turn, said } = await started(await place())
      const id = await turn(samples.say('the herring flies'))
      expect(said()).toContain('the herring flies')
      expect(heard.states.filter((state, at) => state !== heard.states[at - 1])).toEqual(['running', 'idle'])
      expect(heard.results.at(-1)).toMatchObject({ ok: true, prompts: [id] })
      const shown = heard.live.flatMap((frame) => (frame.type === 'text.delta' ? [frame] : []))
      for (const event of heard.events) {
        if (event.type !== 'text') continue
        const { block, text } = event.body
        const whole = shown
          .filter((frame) => frame.block === block)
          .reduce((before, { offset, text: more }) => before.slice(0, offset) + more, '')
        expect(whole).toBe(text)
      }
      expect(shown.length).toBeGreaterThan(0)
    })

    test('runs a tool when it may, and tells of it', async () => {
      const at = await place()
      const { heard, turn } = await started(at)
      await turn(samples.run('echo made > file'))
      expect(heard.mayRun).toMatchObject([{ input: { command: 'echo made > file' } }])
      expect(await readFile(join(at.workspace, 'file'), 'utf8')).toBe('made\n')
      const [began, ended] = heard.events.filter(({ type }) => type.startsWith('tool.'))
      expect([began, ended]).toMatchObject([{ type: 'tool.started' }, { type: 'tool.finished', body: { failed: false } }])
    })

    test('runs no tool that it may not, and reads why', async () => {
      const at = await place()
      const mayRun = async () => ({ allow: false, why: 'nobody wants that' }) as const
      const { heard, turn } = await started(at, { heard: { mayRun } })
      await turn(samples.run('echo made > file'))
      await expect(access(join(at.workspace, 'file'))).rejects.toThrow('ENOENT')
      const ended = heard.events.find(({ type }) => type === 'tool.finished')
      expect(ended).toMatchObject({ body: { failed: true, output: expect.stringContaining('nobody wants that') as string } })
    })

    test('asks a person by its keeper, and reads the answer', async () => {
      const { heard, turn, said } = await started(await place())
      await turn(samples.question)
      expect(heard.asked).toMatchObject([{ kind: 'question' }])
      expect(`${said()}${JSON.stringify(heard.events)}`).toContain('the second')
    })

    test('ends its turn when it is interrupted, names what it let go, and answers the next prompt', async () => {
      const at = await place()
      const { agent, heard, send, turn, said } = await started(at)
      send(samples.run('touch running; exec sleep 600'))
      await vi.waitFor(() => access(join(at.workspace, 'running')), patience)
      const late = send(samples.say('never said'))
      // It has that one when it has answered what it was asked behind it.
      await agent.answers()
      expect(await agent.interrupt()).toEqual([late])
      await vi.waitFor(() => expect(heard.states.at(-1)).toBe('idle'), patience)
      await turn(samples.say('still here'))
      expect(said()).toContain('still here')
      expect(said()).not.toContain('never said')
    })

    test('goes on with a conversation, and names the prompts of it that it never had', async () => {
      const at = await place()
      const first = await started(at)
      const had = await first.turn(samples.say('the herring flies'))
      expect([first.agent.resumed, first.agent.unseen]).toEqual([false, []])
      await first.agent[Symbol.asyncDispose]()
      const never = newPromptId(randomBytes)
      const { agent, turn, said } = await started(at, { resume: true, unfinished: [had, never] })
      expect([agent.resumed, agent.unseen]).toEqual([true, [never]])
      await turn(samples.recall)
      expect(said()).toContain('the herring flies')
    })

    test('says that it begins anew where there is nothing to go on with', async () => {
      const { agent } = await started(await place(), { resume: true })
      expect(agent.resumed).toBe(false)
    })

    test('is told as gone, once, when its process is killed', async () => {
      const { agent, heard, cell, turn } = await started(await place())
      await turn(samples.say('hello'))
      cell.killAll()
      await vi.waitFor(() => expect(heard.gone).toHaveLength(1), patience)
      await agent[Symbol.asyncDispose]()
      expect(heard.gone).toHaveLength(1)
    })

    test('leaves when it is disposed of, which may be done twice and is not told as gone', async () => {
      const { agent, heard, cell, turn } = await started(await place())
      await turn(samples.say('hello'))
      await Promise.all([agent[Symbol.asyncDispose](), agent[Symbol.asyncDispose]()])
      await vi.waitFor(() => expect(cell.living()).toBe(0), patience)
      expect(heard.gone).toEqual([])
    })

    test('is told as gone where only rubbish comes out of it, and nothing of that is taken for what it said', async () => {
      const files = { ...samples.files, program: samples.rubbish }
      const { heard, send } = await started(await place(), { files })
      send(samples.say('hello'))
      await vi.waitFor(() => expect(heard.gone).toHaveLength(1), patience)
      expect(heard.events.filter(({ type }) => type !== 'agent.raw')).toEqual([])
      expect([heard.results, heard.mayRun, heard.asked]).toEqual([[], [], []])
    })
  })
}

/** A cell that is none: an agent's promises are kept on any rung. */
function plainCell(): Cell & { killAll(): void; living(): number } {
  const living = new Set<ReturnType<typeof spawn>>()
  return {
    limits: [],
    place: (path) => path,
    onTerminal: async () => 0,
    ended: new Promise(() => {}),
    trouble: { ending: null, met: null },
    spawn([program, ...args], { env, cwd }) {
      // It leads a group, so that what it starts goes with it.
      const child = spawn(program, args, { env: { ...env }, cwd, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
      living.add(child)
      child.once('exit', () => living.delete(child))
      return cellProcess(child, (signal) => child.kill(signal))
    },
    killAll: () => living.forEach(({ pid }) => pid !== undefined && process.kill(-pid, 'SIGKILL')),
    living: () => living.size,
    [Symbol.asyncDispose]: async () => {},
  }
}
