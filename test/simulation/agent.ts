import { pause } from '@anchorhold/link/clock'
import type { PromptId } from '@anchorhold/protocol/ids'
import type { Agent, AgentDriver, AgentPrompt, AgentStart } from '@anchorhold/keeper/agents/agent'
import type { Process } from './machine.ts'

/** Something that really happened: a tool call, or a call over the network to a host. */
export type Done = { readonly kind: 'tool' | 'net'; readonly what: string }

/** What became of one model call, as an agent sees it. */
export type CallEnd = 'answered' | 'refused' | 'cut'

export type SimulatedAgentOptions = {
  readonly process: Process
  readonly random: () => number
  readonly call: (process: Process) => Promise<CallEnd>
  /** Something that leaves the cell. */
  readonly act: (process: Process, host: string) => Promise<'allow' | 'deny' | 'cut'>
  /** What it did, once it was let. */
  readonly did: (deed: Done) => void
  /** How often an agent of this session has written each prompt down. It is in the session's home, and outlives the agent. */
  readonly memory: Map<PromptId, number>
}

const attemptsMax = 4

/** An agent that talks, uses tools, asks people and takes its time, as its random numbers say. It lives in its keeper's cell. */
export function simulatedAgents({ process, random, call, act, did, memory }: SimulatedAgentOptions): AgentDriver {
  const { clock } = process
  const chance = (probability: number) => random() < probability
  let blocks = 0

  async function start({ heard, unfinished, takeUp, resume }: AgentStart): Promise<Agent> {
    await process.sometime(300)
    const inbox: AgentPrompt[] = []
    let running = false
    let interrupted = false
    let over = false
    const unseen = unfinished.filter((id) => !memory.has(id))
    let resumes = takeUp && (unfinished.length === 0 || unseen.length < unfinished.length)
    const asking = new Set<AbortController>()
    /** What it is told reaches it in order, after a while. */
    let last: Promise<unknown> = Promise.resolve()
    const told = (atMostMs: number, then: () => void): Promise<void> => {
      const arrived = last.then(() => process.sometime(atMostMs)).then(then)
      last = arrived
      return arrived
    }

    /** Says a block, a piece at a time. */
    async function say(): Promise<void> {
      const block = `${process.pid}-${++blocks}`
      let text = ''
      for (let pieces = 1 + Math.floor(random() * 3); pieces > 0; pieces--) {
        await process.sometime(60)
        if (over || interrupted) break
        heard.live({ type: 'text.delta', block, offset: text.length, text: `word${pieces} ` })
        text += `word${pieces} `
      }
      if (text !== '' && !over) heard.event({ type: 'text', body: { block, text, parent: null } })
    }

    async function useTool(command: string): Promise<void> {
      const id = `call-${process.pid}-${++blocks}`
      const abort = new AbortController()
      asking.add(abort)
      const { allow } = await heard.mayRun('Bash', { command }, id, abort.signal)
      asking.delete(abort)
      if (over || !allow) return
      did({ kind: 'tool', what: id })
      heard.event({
        type: 'tool.started',
        body: { call: id, tool: 'Bash', input: { command }, truncated: false, parent: null },
      })
      await process.sometime(200)
      if (over) return
      heard.event({
        type: 'tool.finished',
        body: { call: id, tool: 'Bash', output: 'fine', truncated: false, failed: false, parent: null },
      })
    }

    async function reach(host: string): Promise<void> {
      if ((await act(process, host)) === 'allow') did({ kind: 'net', what: host })
    }

    /** Does again what it is told was allowed. */
    async function again(text: string): Promise<void> {
      const tool = /allowed your use of the tool Bash with this input: (\{.*?\})\. Do it again/.exec(text)?.[1]
      const host = /allowed your call to (\w+):443/.exec(text)?.[1]
      if (tool !== undefined) await useTool((JSON.parse(tool) as { command: string }).command)
      if (host !== undefined && !over) await reach(host)
    }

    async function ask(): Promise<void> {
      const abort = new AbortController()
      asking.add(abort)
      await heard.ask({ kind: 'plan', plan: 'Do it' }, null, abort.signal)
      asking.delete(abort)
    }

    /** Calls the model, again when the line was cut. */
    async function think(): Promise<CallEnd> {
      for (let attempt = 1; ; attempt++) {
        const end = await call(process)
        if (end !== 'cut' || attempt === attemptsMax || over || interrupted) return end
        await pause(clock, 200 * attempt)
      }
    }

    async function run(): Promise<void> {
      running = true
      while ((inbox.length > 0 || resumes) && !over) {
        resumes = false
        interrupted = false
        heard.state('running')
        const taken: PromptId[] = []
        let why: string | null = null
        for (let steps = 1 + Math.floor(random() * 3); steps > 0 && why === null; steps--) {
          const told = inbox.splice(0)
          for (const { id } of told) {
            memory.set(id, (memory.get(id) ?? 0) + 1)
            taken.push(id)
          }
          const end = await think()
          if (over) return
          if (interrupted) why = 'interrupted'
          else if (end !== 'answered') why = end
          else await say()
          for (const { text } of told) if (!over && !interrupted && why === null) await again(text)
          if (!over && !interrupted && why === null && chance(0.4)) await useTool(`make ${Math.floor(random() * 3)}`)
          if (!over && !interrupted && why === null && chance(0.25)) await reach(`host${Math.floor(random() * 2)}`)
          if (!over && why === null && chance(0.15)) await ask()
          if (interrupted) why ??= 'interrupted'
        }
        if (over) return
        heard.result({ ok: why === null, why, prompts: taken })
        if (chance(0.2)) await process.sometime(30)
      }
      running = false
      if (!over) heard.state('idle')
    }

    const wake = () => {
      if (!running && !over) void run()
    }
    if (resumes) void told(3, wake)
    return {
      unseen,
      resumed: resume,
      remind: ({ id }) => void memory.set(id, (memory.get(id) ?? 0) + 1),
      send(prompt) {
        void told(3, () => {
          inbox.push(prompt)
          wake()
        })
      },
      async interrupt() {
        let letGo: readonly AgentPrompt[] = []
        await told(50, () => {
          interrupted = running
          letGo = inbox.splice(0)
          for (const abort of asking) abort.abort()
        })
        // Now and then it does not listen.
        if (chance(0.05)) await pause(clock, 8000)
        return letGo.map(({ id }) => id)
      },
      setModel: () => process.sometime(),
      answers: async () => {},
      commands: async () => [],
      async [Symbol.asyncDispose]() {
        over = true
        await process.sometime(20)
      },
    }
  }
  return { name: 'simulated', shellSnapshots: null, mounts: () => [], start }
}
