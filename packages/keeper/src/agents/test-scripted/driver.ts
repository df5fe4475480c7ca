import { PromptId } from '@anchorhold/protocol/ids'
import { createInterface } from 'node:readline'
import { setTimeout as wait } from 'node:timers/promises'
import { z } from 'zod'
import type { Agent, AgentDriver, AgentPrompt, AgentStart } from '../agent.ts'
import { heldOutput } from '../held-output.ts'

/** What the scripted agent says, a line each. */
const Said = z.union([
  z.strictObject({ remembers: z.boolean(), prompts: z.array(PromptId).max(1000) }),
  z.strictObject({ state: z.enum(['running', 'idle']) }),
  z.strictObject({ delta: z.string(), block: z.string(), offset: z.int().min(0) }),
  z.strictObject({ said: z.string(), block: z.string() }),
  z.strictObject({ use: z.string(), call: z.string() }),
  z.strictObject({ done: z.string(), output: z.string(), failed: z.boolean() }),
  z.strictObject({ ask: z.string(), call: z.string() }),
  z.strictObject({ result: PromptId, ok: z.boolean() }),
  z.strictObject({ pong: z.int() }),
  z.strictObject({ interrupted: z.int(), letGo: z.array(PromptId) }),
])
type Said = z.infer<typeof Said>

const tool = 'Shell'
const farewellMs = 1000

/** A second agent, in the tests alone: what a driver needs is seen by how little this one is. */
export const scriptedDriver: AgentDriver = { name: 'scripted', shellSnapshots: null, mounts: () => [], start }

async function start({ cell, files, workspace, home, unfinished, resume, heard, ...how }: AgentStart): Promise<Agent> {
  const abort = new AbortController()
  const child = cell.spawn([cell.place(files.node), cell.place(files.program), `${cell.place(home)}/${how.conversation}`], {
    env: { PATH: '/usr/bin:/bin' },
    cwd: cell.place(workspace),
  })
  const tell = (told: unknown) => void child.stdin.write(`${JSON.stringify(told)}\n`)
  const begun = Promise.withResolvers<{ readonly remembers: boolean; readonly prompts: readonly PromptId[] }>()
  const waiting = new Map<number, (said: Said) => void>()
  let asked = 0
  let closing = false
  const ask = (what: string) =>
    new Promise<Said>((resolve) => {
      waiting.set(++asked, resolve)
      tell({ [what]: asked })
    })

  async function hear(said: Said): Promise<void> {
    if ('remembers' in said) begun.resolve(said)
    else if ('state' in said) heard.state(said.state)
    else if ('delta' in said)
      heard.live({ type: 'text.delta', block: said.block, offset: said.offset, text: said.delta, parent: null })
    else if ('said' in said) heard.event({ type: 'text', body: { block: said.block, text: said.said, parent: null } })
    else if ('result' in said) heard.result({ ok: said.ok, why: said.ok ? null : 'it was stopped', prompts: [said.result] })
    else if ('pong' in said) waiting.get(said.pong)?.(said)
    else if ('interrupted' in said) waiting.get(said.interrupted)?.(said)
    else if ('done' in said) {
      const { done: call, output, failed } = said
      heard.event({ type: 'tool.finished', body: { call, tool, output, truncated: false, failed, parent: null } })
    } else if ('use' in said) {
      const input = { command: said.use }
      heard.event({ type: 'tool.started', body: { call: said.call, tool, input, truncated: false, parent: null } })
      const verdict = await heard.mayRun(tool, input, said.call, abort.signal)
      tell({ answer: said.call, ...verdict })
    } else {
      const options = ['the first', 'the second'].map((label) => ({ label }))
      const question = { question: said.ask, multi: false, options }
      const answer = await heard.ask({ kind: 'question', questions: [question] }, said.call, abort.signal)
      tell({ answer: said.call, chosen: answer.answers?.[said.ask] })
    }
  }

  const reading = (async () => {
    const tooLong = () => child.kill('SIGKILL')
    const lines = createInterface({ input: heldOutput(child.stdout, { stored: heard.stored, tooLong }, abort.signal) })
    for await (const line of lines) {
      const said = Said.safeParse(parsed(line)).data
      if (said === undefined) child.kill('SIGKILL')
      else void hear(said).catch(() => {})
    }
    const code = await child.exited
    begun.resolve({ remembers: false, prompts: [] })
    if (!closing) heard.gone(`The agent ended with code ${code}`)
  })()
  const { remembers, prompts } = await begun.promise

  return {
    unseen: unfinished.filter((id) => !prompts.includes(id)),
    resumed: resume && remembers,
    send: (prompt: AgentPrompt) => tell({ prompt: { id: prompt.id, text: prompt.text } }),
    remind() {},
    async interrupt() {
      const said = await ask('interrupt')
      return 'letGo' in said ? said.letGo : []
    },
    async setModel() {},
    answers: async () => void (await ask('ping')),
    commands: async () => [],
    async [Symbol.asyncDispose]() {
      closing = true
      child.stdin.end()
      await Promise.race([child.exited, wait(farewellMs, undefined, { ref: false })])
      child.kill('SIGKILL')
      abort.abort()
      await reading
    },
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line)
  } catch {
    return null
  }
}
