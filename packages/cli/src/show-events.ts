import { counted } from '@anchorhold/core/counted'
import type { Event, LiveFrame, RequestAnswer } from '@anchorhold/protocol/events'
import { formatUsd, microsUp } from '@anchorhold/protocol/money'
import { printableActionLine } from '@anchorhold/core/printable'
import { settledWords } from '@anchorhold/core/request-told'
import { requestLines } from './request-words.ts'
import type { Seen } from './stream.ts'
import type { Terminal } from './terminal.ts'

const outputLines = 6

/** Writes what happens in a session for a person to read. */
export function eventPrinter(terminal: Terminal, inbox: string | null = null): (seen: Seen) => void {
  /** How much of each block has been written already, as it streamed. */
  const written = new Map<string, number>()
  let cost = 0
  let simulated = false
  let last = ''
  /** The last notice, which the end of a turn need not repeat. */
  let noticed: string | null = null
  const asked = new Set<string>()
  const dim = (text: string) => terminal.style('dim', text)

  function delta(frame: Extract<LiveFrame, { block: string }>): void {
    if (frame.parent) return
    const done = written.get(frame.block) ?? 0
    const fresh = frame.text.slice(Math.max(0, done - frame.offset))
    if (frame.offset > done || fresh === '') return
    if (done === 0 && last !== frame.block) begin(frame.type === 'thinking.delta')
    last = frame.block
    terminal.write(fresh, frame.type === 'thinking.delta' ? 'dim' : undefined)
    written.set(frame.block, frame.offset + frame.text.length)
  }

  function begin(thinking: boolean): void {
    terminal.line(thinking ? dim('thinking') : '')
  }

  /** Whatever of a finished block has not been seen as it streamed. */
  function block(kind: 'text' | 'thinking', id: string, text: string, parent: boolean): void {
    const done = written.get(id) ?? 0
    written.delete(id)
    if (parent) return
    const rest = text.slice(done)
    if (rest !== '' && last !== id) begin(kind === 'thinking')
    if (rest !== '') terminal.write(rest, kind === 'thinking' ? 'dim' : undefined)
    // The end of one block may come when the next is being written already.
    if (rest === '' && last !== id) return
    terminal.write('\n')
    last = ''
  }

  return (seen) => {
    if ('live' in seen) {
      const { live } = seen
      if (live.type === 'tool.progress') terminal.spin(`${terminal.foreign(live.tool)} · ${Math.round(live.elapsed_ms / 1000)} s`)
      else delta(live)
      return
    }
    const { event } = seen
    const line = summary(terminal, event)
    switch (event.type) {
      case 'text':
      case 'thinking':
        if (event.body.superseded) {
          written.delete(event.body.block)
          terminal.line(dim('(cut off, and repeated)'))
        } else block(event.type, event.body.block, event.body.text, Boolean(event.body.parent))
        break
      case 'usage':
        cost += event.body.cost_nanos
        simulated ||= event.body.simulated
        break
      case 'turn.ended': {
        const { reason, why, duration_ms } = event.body
        const money =
          cost === 0 ? '' : ` · ${formatUsd(microsUp(cost))}${simulated ? ' of play money (rehearsal, no model was called)' : ''}`
        const mark = reason === 'done' ? terminal.style('green', '✓ done') : terminal.style('red', `✗ ${reason}`)
        terminal.line(
          `${mark} ${dim(`in ${(duration_ms / 1000).toFixed(1)} s${money}`)}${why === null || why === noticed ? '' : `\n  ${terminal.foreign(why)}`}`,
        )
        cost = 0
        break
      }
      case 'notice':
        noticed = event.body.message
        if (line !== null) terminal.line(line)
        break
      case 'request.opened':
        asked.add(event.body.id)
        if (line !== null) terminal.line(line)
        if (inbox !== null) terminal.line(dim(`  or in the browser: ${inbox}`))
        break
      case 'request.answered':
        // What was asked before this began to look on, nobody here has waited for.
        if (line !== null) terminal.line(asked.delete(event.body.id) ? `${line}${dim(goesOn[event.body.answer.decision])}` : line)
        break
      default:
        if (line !== null) terminal.line(line)
    }
    if (event.type === 'turn.started' || event.type === 'tool.started')
      terminal.spin(event.type === 'turn.started' ? 'working' : terminal.foreign(event.body.tool))
    if (event.type === 'request.answered') terminal.spin('working')
  }
}

/** What becomes of the turn once it is settled. */
const goesOn = {
  allow: ': it goes on',
  deny: ': it goes on without',
  expired: ': it goes on without',
  withdrawn: '',
} as const satisfies Record<RequestAnswer['decision'], string>

/** One event in a line or a few; null for those that say nothing to a person. */
export function summary(terminal: Terminal, event: Event): string | null {
  const { style, foreign } = terminal
  const clip = (text: string, max: number) => (text.length > max ? `${text.slice(0, max - 1)}…` : text)
  const paragraphs = (text: string) => text.trimEnd().split('\n').map(foreign).join('\n')
  switch (event.type) {
    case 'session.created':
      return `${style('bold', event.session)} ${style('dim', `${event.body.rung} · ${event.body.provider} · ${foreign(event.body.workspace)}`)}`
    case 'session.state': {
      if (event.body.goes_on) return style('yellow', `interrupted, then resumed: ${foreign(event.body.why ?? '')}`)
      if (event.body.to === 'failed' || event.body.to === 'interrupted')
        return style('red', `${event.body.to}: ${foreign(event.body.why ?? '')}`)
      if (event.body.to === 'paused' || event.body.to === 'stopped' || event.body.to === 'archived')
        return style('yellow', event.body.to)
      return null
    }
    case 'prompt':
      return `${style('cyan', '›')} ${foreign(clip(event.body.text, 500))}${event.body.images > 0 ? style('dim', ` (+${counted(event.body.images, 'image')})`) : ''}`
    case 'prompt.again':
      return style('dim', '  (the agent died before it read this prompt: it is sent again)')
    case 'turn.started':
      return event.body.cause === 'resume' ? style('dim', '  (the turn is resumed)') : null
    case 'text':
      return paragraphs(clip(event.body.text, 2000))
    case 'thinking':
      return style('dim', paragraphs(clip(event.body.text, 500)))
    case 'tool.started':
      return `${style('blue', '●')} ${style('bold', foreign(event.body.tool))} ${style('dim', clip(printableActionLine(toolWords(event.body)), 200))}`
    case 'tool.finished': {
      const lines = event.body.output.split('\n')
      const shown = lines.slice(0, outputLines).map((one) => `  ${foreign(clip(one, Math.min(400, terminal.width - 3)))}`)
      const more = lines.length > outputLines ? [`  … ${counted(lines.length - outputLines, 'more line')}`] : []
      const text = [...shown, ...more].join('\n')
      return event.body.failed ? style('red', text) : style('dim', text)
    }
    case 'request.opened':
      return openedRequest(terminal, event)
    case 'request.answered':
      return style('dim', `  ${foreign(settledWords(event.body.answer, event.body.actor))}`)
    case 'request.deferred':
      return style('dim', `  not now, says ${foreign(event.body.actor)}: it stays open`)
    case 'decision':
      if (event.body.effect !== 'deny') return null
      return style('yellow', `  ${event.body.unanswered === true ? 'not done' : 'denied'}: ${foreign(event.body.by)}`)
    case 'keeper.lost':
      return style('red', foreign(event.body.why))
    case 'notice':
      return style(
        event.body.level === 'info' ? 'dim' : event.body.level === 'warning' ? 'yellow' : 'red',
        foreign(event.body.message),
      )
    case 'net':
      return event.body.blocked === 0
        ? null
        : style('yellow', `blocked: ${event.body.host === null ? 'unnamed' : `${foreign(event.body.host)}:${event.body.port}`}`) +
            style('dim', ` ×${event.body.blocked} ${foreign(event.body.why ?? '')}`)
    case 'turn.ended':
      return style('dim', `— ${event.body.reason}${event.body.why === null ? '' : `: ${foreign(event.body.why)}`}`)
    default:
      return null
  }
}

function openedRequest({ style, interactive, width }: Terminal, event: Event & { type: 'request.opened' }): string {
  const { id, action } = event.body
  const { rule } = event.body
  const scoped = rule === null ? ' [--session]' : ' [--session | --rule]'
  const scopes = action.kind === 'question' ? ' --answer "…"' : action.kind === 'plan' || action.kind === 'spend' ? '' : scoped
  const how = [
    `  it waits for your answer: anchorhold allow ${id}${scopes}`,
    `  or: anchorhold deny ${id} --reason "…"`,
    `  or: anchorhold later ${id}`,
  ]
  const [first = '', ...rest] = requestLines(action, interactive ? width : null)
  return [style('yellow', `? ${first}`), ...rest, ...how.map((line) => style('dim', line))].join('\n')
}

/** Tools that ask a person something: the request that follows shows all of it. */
const asking: ReadonlyMap<string, string> = new Map([
  ['AskUserQuestion', 'asks you something'],
  ['ExitPlanMode', 'shows you its plan'],
])

/** The part of a tool's input that a person wants to see. */
function toolWords({ tool, input }: { readonly tool: string; readonly input: unknown }): string {
  const asks = asking.get(tool)
  if (asks !== undefined) return asks
  if (typeof input !== 'object' || input === null) return JSON.stringify(input) ?? ''
  const fields = input as Record<string, unknown>
  for (const name of ['command', 'file_path', 'pattern', 'path', 'description', 'prompt', 'query', 'url']) {
    if (typeof fields[name] === 'string') return fields[name]
  }
  return JSON.stringify(input)
}
