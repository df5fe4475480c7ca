import type { Event } from '@anchorhold/protocol/events'
import type { SessionId } from '@anchorhold/protocol/ids'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { keepersOf, processesOf } from '../e2e/host.ts'
import { type Installation, installation, script, until } from '../e2e/installation.ts'

const kills = Number(process.env.CHAOS_KILLS ?? 40)
const sessions = Number(process.env.CHAOS_SESSIONS ?? 6)
const seed = Number(process.env.CHAOS_SEED ?? 1)

/** What a watcher of one session has seen, over every connection it had. */
type Watched = { readonly events: Event[]; readonly text: Map<string, string> }

test(`nothing that was delivered is lost over ${kills} kills with ${sessions} sessions streaming (seed ${seed})`, async () => {
  const random = generator(seed)
  await using it = await installation()
  const watched = new Map<SessionId, Watched>()
  const end = new AbortController()
  const watchers: Promise<void>[] = []
  const prompt = () =>
    script({ text: 'word '.repeat(200), pace_ms: 5 }, { tool_use: 'Bash', input: { command: 'echo done' } }, { text: 'the end' })
  for (let i = 0; i < sessions; i++) {
    const { id } = await it.api.createSession({ body: { prompt: { text: prompt() }, budget_micros: 100_000_000 } })
    const seen: Watched = { events: [], text: new Map() }
    watched.set(id, seen)
    watchers.push(watch(it, id, seen, end.signal))
  }
  const counts: Record<string, number> = {}
  for (let kill = 0; kill < kills; kill++) {
    // Every session has work to do; one that was cut short goes on with a new prompt.
    for (const id of watched.keys()) {
      const { state } = await it.api.getSession({ params: { id } })
      if (state === 'ready' || state === 'interrupted') await it.api.prompt({ params: { id }, body: { text: prompt() } })
    }
    await wait(random() * 400)
    const [victim] = (['daemon', 'gate', 'keeper', 'all'] as const).slice(Math.floor(random() * 4))
    counts[victim!] = (counts[victim!] ?? 0) + 1
    const target = [...watched.keys()][Math.floor(random() * sessions)]!
    if (victim === 'gate' || victim === 'all')
      end9(processesOf(it.state, ({ argv }) => argv.includes('/gate.mjs')).map(({ pid }) => pid))
    if (victim === 'keeper') end9(keepersOf(it.state, target).map(({ pid }) => pid))
    if (victim === 'all') end9(keepersOf(it.state).map(({ pid }) => pid))
    if (victim === 'daemon' || victim === 'all') {
      end9([(JSON.parse(readFileSync(join(it.state, 'daemon.json'), 'utf8')) as { pid: number }).pid])
      await it.up()
    }
  }
  // Everything comes to rest.
  for (const id of watched.keys()) {
    await until(async () => {
      const { state, queued_prompts } = await it.api.getSession({ params: { id } })
      return queued_prompts === 0 && (state === 'ready' || state === 'interrupted')
    })
  }
  const [marker] = await Promise.all([...watched.keys()].map((id) => it.log(id)))
  expect(marker?.length).toBeGreaterThan(0)
  for (const [id, seen] of watched) {
    const log = await it.log(id)
    await until(() => seen.events.length >= log.length)
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1))
    expect(seen.events.slice(0, log.length)).toEqual(log)
    // No delivered character is missing from what is stored.
    const stored = new Map(
      log.flatMap((event) => (event.type === 'text' || event.type === 'thinking' ? [[event.body.block, event.body.text]] : [])),
    )
    for (const [block, text] of seen.text)
      expect({ block, whole: (stored.get(block) ?? '').startsWith(text) }).toEqual({ block, whole: true })
    // No prompt twice, turns one after the other, and the books balance.
    const prompts = log.flatMap((event) => (event.type === 'prompt' ? [event.body.id] : []))
    expect(new Set(prompts).size).toBe(prompts.length)
    const calls = log.flatMap((event) => (event.type === 'usage' ? [event.body] : []))
    expect(new Set(calls.map(({ call }) => call)).size).toBe(calls.length)
    const { cost_micros } = await it.api.getSession({ params: { id } })
    expect(cost_micros).toBe(Math.ceil(calls.reduce((sum, { cost_nanos }) => sum + cost_nanos, 0) / 1000))
  }
  end.abort()
  await Promise.all(watchers)
  console.log(`kills: ${JSON.stringify(counts)}`)
})

/** Follows a session for good, over every daemon there is, and notes whatever it is shown. */
async function watch(it: Installation, id: SessionId, seen: Watched, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await it.follow(id, seen.events.at(-1)?.seq ?? 0, ({ event, live }) => {
        if (event !== undefined) seen.events.push(event)
        if (live !== undefined && live.type !== 'tool.progress') {
          const said = seen.text.get(live.block) ?? ''
          if (live.offset <= said.length) seen.text.set(live.block, said.slice(0, live.offset) + live.text)
        }
        return signal.aborted
      })
    } catch {
      await wait(20)
    }
  }
}

function end9(pids: readonly number[]): void {
  for (const pid of pids) {
    try {
      process.kill(pid, 'SIGKILL')
    } catch {
      // It has ended by itself.
    }
  }
}

/** A small generator (mulberry32), so that a run can be had again from its seed. */
function generator(from: number): () => number {
  let state = from
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32
  }
}
