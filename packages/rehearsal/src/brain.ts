import { isAbsolute, join, normalize } from 'node:path/posix'
import type { Conversation, Move, Outcome, Reply } from './conversation.ts'
import { known, parseInstruction, type Step } from './instructions.ts'
import { allowedAgain } from './settled.ts'
import { scriptedReply, scriptIn } from './script.ts'

/** The next message of the assistant. It follows plain instructions, and knows where it stands from the conversation alone. */
export function reply(talk: Conversation): Reply {
  if (talk.wantsTitle) return moves(say(JSON.stringify({ title: titleOf(talk.instruction) })))
  const script = scriptIn(talk.instruction)
  if (script !== null) return scriptedReply(script, talk.replies)
  const notification = between(talk.instruction, 'task-notification')
  if (notification !== null)
    return moves(say(`The sub-agent has ended.${quote(reportIn(notificationText(notification)))}`), say(label))
  const again = allowedAgain(talk)
  if (again !== null) return repeat(again, talk)
  return follow(stepsOf(talk), talk)
}

/** Does what was allowed once more, and tells how it went. */
function repeat(calls: readonly { readonly tool: string; readonly input: unknown }[], { outcomes }: Conversation): Reply {
  if (outcomes.length > 0) return moves(say(summary(outcomes.map(({ text }) => `I did it again:${quote(text)}`))), say(label))
  if (calls.length === 0) return moves(say('I have heard it, and go on.'), say(label))
  return moves(say('I do it again.'), ...calls.map((call): Move => ({ do: 'call', ...call })))
}

const label = '(Rehearsal: no model was called.)'
const say = (text: string, paceMs = 0): Move => ({ do: 'text', text, paceMs })
/** Texts that follow each other are paragraphs. */
const moves = (...list: readonly Move[]): Reply => ({
  kind: 'moves',
  moves: list.map((move, index) =>
    move.do === 'text' && list[index - 1]?.do === 'text' ? { ...move, text: `\n\n${move.text}` } : move,
  ),
})

/** What a step wants next, given the results of the calls that it made so far. */
type Next =
  | {
      readonly want: 'calls'
      readonly words: string
      readonly calls: readonly { readonly tool: string; readonly input: unknown }[]
    }
  | { readonly want: 'moves'; readonly moves: readonly Move[] }
  | { readonly want: 'error'; readonly status: number; readonly message: string }
  /** The step is over, with what is to be said of it; `stop` ends all that follows as well. */
  | { readonly want: 'nothing'; readonly note: string; readonly stop?: boolean }

/** Results of calls, in their order, and how many of them were spent on steps. */
type Results = { readonly all: readonly Outcome[]; spent: number }

/** Goes through the steps again from the first, spending the results that are there, up to the first that is missing. */
function follow(steps: readonly Step[], talk: Conversation): Reply {
  const results: Results = { all: talk.outcomes.filter(({ tool }) => tool !== 'ToolSearch'), spent: 0 }
  const searched = new Set(talk.outcomes.filter(({ tool }) => tool === 'ToolSearch').map(({ input }) => JSON.stringify(input)))
  const notes: string[] = []
  let unsaid: Move[] = []

  for (const step of steps) {
    const before = results.spent
    const next = step.do === 'plan' ? plan(step, results, talk) : spend(step, results, talk, sameTool)
    // What was to be said before a call was said along with it.
    if (results.spent > before) unsaid = []
    switch (next.want) {
      case 'error':
        return { kind: 'error', status: next.status, message: next.message }
      case 'moves':
        unsaid.push(...next.moves)
        break
      case 'nothing':
        if (next.note !== '') notes.push(next.note)
        if (next.stop === true) return moves(...unsaid, say(summary(notes)), say(label))
        break
      case 'calls': {
        const { tool } = next.calls[0]!
        if (talk.tools.has(tool)) {
          return moves(...unsaid, say(next.words), ...next.calls.map((call): Move => ({ do: 'call', ...call })))
        }
        const search = { query: `select:${tool}`, max_results: 5 }
        if (talk.deferred.has(tool) && talk.tools.has('ToolSearch') && !searched.has(JSON.stringify(search))) {
          return moves(...unsaid, { do: 'call', tool: 'ToolSearch', input: search })
        }
        notes.push(`I would need the tool ${tool} to ${inWords(step)}, and this session does not offer it.`)
      }
    }
  }
  if (notes.length > 0) unsaid.push(say(summary(notes)))
  return moves(...unsaid, say(label))
}

type Planned = Exclude<Step, { do: 'plan' }>
type Calls = Extract<Next, { want: 'calls' }>['calls']
const sameTool = (calls: Calls, { all, spent }: Results) => all[spent]?.tool === calls[0]!.tool
const enough = (calls: Calls, { all, spent }: Results) => all.length - spent >= calls.length

/** What a step wants when it has been given the results that are there for it. */
function spend(step: Planned, results: Results, talk: Conversation, has: (calls: Calls, results: Results) => boolean): Next {
  const own: Outcome[] = []
  for (;;) {
    const next = nextOf(step, own, talk)
    if (next.want !== 'calls' || !has(next.calls, results)) return next
    own.push(...results.all.slice(results.spent, results.spent + next.calls.length))
    results.spent = Math.min(results.all.length, results.spent + next.calls.length)
  }
}

function stepsOf(talk: Conversation): readonly Step[] {
  const steps = parseInstruction(talk.instruction)
  const seen: Step[] = talk.images.length === 0 ? [] : [{ do: 'say', text: sight(talk.images), paceMs: 0 }]
  if (!steps.some(known)) {
    if (seen.length > 0) return seen
    return talk.planning ? [{ do: 'plan', goal: talk.instruction, steps: [] }] : [{ do: 'unknown', text: talk.instruction }]
  }
  // In plan mode nothing is done before the plan is approved.
  if (talk.planning && steps.every(({ do: what }) => what !== 'plan')) {
    return [...seen, { do: 'plan', goal: talk.instruction, steps: steps.filter(known) }]
  }
  return [...seen, ...steps]
}

/** A plan is followed by `plan`. */
function nextOf(step: Planned, spent: readonly Outcome[], talk: Conversation): Next {
  const [first, second] = spent
  const at = (path: string) => (isAbsolute(path) || talk.folder === null ? path : normalize(join(talk.folder, path)))
  switch (step.do) {
    case 'create': {
      const write = { tool: 'Write', input: { file_path: at(step.path), content: step.content } }
      if (first === undefined) return calls(`I will create ${step.path}.`, write)
      // A file that is there already must be read before it may be written over.
      if (first.failed && /has not been read/i.test(first.text) && spent.length === 1) {
        return calls(`${step.path} is there already, so I will read it first.`, {
          tool: 'Read',
          input: { file_path: at(step.path) },
        })
      }
      if (spent.length === 2) return calls(`I will write ${step.path} anew.`, write)
      return told(spent.at(-1)!, `I created ${step.path}.`, `I could not create ${step.path}`)
    }
    case 'edit': {
      if (first === undefined)
        return calls(`I will read ${step.path} first.`, { tool: 'Read', input: { file_path: at(step.path) } })
      if (first.failed) return told(first, '', `I could not read ${step.path}`)
      const input = { file_path: at(step.path), old_string: step.before, new_string: step.after, replace_all: true }
      if (second === undefined) return calls(`I will replace “${step.before}” with “${step.after}”.`, { tool: 'Edit', input })
      return told(second, `I replaced “${step.before}” with “${step.after}” in ${step.path}.`, `I could not edit ${step.path}`)
    }
    case 'run': {
      const input = { command: step.command, description: 'Run the command that was asked for' }
      if (first === undefined) return calls(`I will run \`${step.command}\`.`, { tool: 'Bash', input })
      return shown(first, `\`${step.command}\``)
    }
    case 'read': {
      if (first === undefined) return calls(`I will read ${step.path}.`, { tool: 'Read', input: { file_path: at(step.path) } })
      return first.failed
        ? told(first, '', `I could not read ${step.path}`)
        : { want: 'nothing', note: `This is ${step.path}:${quote(first.text)}` }
    }
    case 'search': {
      const where = step.path ?? '.'
      const grep = { tool: 'Grep', input: { pattern: step.pattern, path: at(where), output_mode: 'content' } }
      const command = `grep -rn -- ${inShell(step.pattern)} ${inShell(where)}`
      const bash = { tool: 'Bash', input: { command, description: 'Search the files' } }
      if (first === undefined) return calls(`I will search for “${step.pattern}”.`, talk.tools.has('Grep') ? grep : bash)
      return shown(first, `The search for “${step.pattern}”`)
    }
    case 'list': {
      const input = { command: `ls -la ${inShell(step.path ?? '.')}`, description: 'List the files' }
      if (first === undefined) return calls('I will list the files.', { tool: 'Bash', input })
      return shown(first, 'The list of files')
    }
    case 'think': {
      const thought = `I am asked to think about ${step.about}. This is a rehearsal, so there is no thought behind these words; they only show where thoughts would stand.`
      const answer = say(`I have thought about ${step.about}.`)
      return { want: 'moves', moves: talk.thinks ? [{ do: 'thinking', text: thought }, answer] : [say(thought), answer] }
    }
    case 'say':
      return { want: 'moves', moves: [say(step.text, step.paceMs)] }
    case 'wait':
      return { want: 'moves', moves: [{ do: 'wait', ms: step.ms }, say(`I waited ${step.ms} ms.`)] }
    case 'ask': {
      const options = step.options.map((option) => ({ label: option, description: `Choose “${option}”` }))
      const question = { question: step.question, header: 'Question', options, multiSelect: false }
      if (first === undefined) return calls('I have a question.', { tool: 'AskUserQuestion', input: { questions: [question] } })
      return told(first, `You answered “${answerIn(first.text)}”.`, 'My question was not answered')
    }
    case 'fail':
      return {
        want: 'error',
        status: step.status,
        message: `The rehearsal provider was asked to fail with status ${step.status}`,
      }
    case 'delegate': {
      const tool = talk.tools.has('Task') && !talk.tools.has('Agent') ? 'Task' : 'Agent'
      const input = {
        description: 'A rehearsed task',
        prompt: step.task,
        subagent_type: 'general-purpose',
        run_in_background: step.background,
      }
      if (first === undefined) return calls('I will start a sub-agent.', { tool, input })
      if (step.background && !first.failed) return { want: 'nothing', note: 'A sub-agent is at work in the background.' }
      return told(first, `The sub-agent said:${quote(reportIn(first.text))}`, 'The sub-agent failed')
    }
    case 'repeat': {
      const echo = (index: number) => ({
        tool: 'Bash',
        input: { command: `echo tool ${index + 1} of ${step.times}`, description: `Print ${index + 1} of ${step.times}` },
      })
      if (spent.length >= step.times)
        return { want: 'nothing', note: `I used ${step.times} tools:${quote(spent.map(({ text }) => text).join('\n'))}` }
      const batch = step.together ? Array.from({ length: step.times }, (_, index) => echo(index)) : [echo(spent.length)]
      return {
        want: 'calls',
        words: step.together ? 'I will use them all at once.' : `Tool ${spent.length + 1} of ${step.times}.`,
        calls: batch,
      }
    }
    case 'todo':
      return todo(step.items, spent, talk)
    case 'recall': {
      const list = talk.earlier.map((text, index) => `${index + 1}. ${text.slice(0, 200)}`).join('\n')
      return { want: 'nothing', note: list === '' ? 'You have not asked me anything before.' : `You asked me:\n\n${list}` }
    }
    case 'guidance':
      return {
        want: 'nothing',
        note: talk.guidance === null ? 'The workspace gave me no instructions.' : `The workspace told me:${quote(talk.guidance)}`,
      }
    case 'help':
      return { want: 'nothing', note: abilities }
    case 'unknown':
      return { want: 'nothing', note: `I do not know how to do this: “${step.text.slice(0, 200)}”.\n\n${abilities}` }
  }
}

/** Each planned step is taken in turn, with the results that are left for it. */
function plan(step: Extract<Step, { do: 'plan' }>, results: Results, talk: Conversation): Next {
  const { all, spent } = results
  let exitAt = spent
  while (exitAt < all.length && all[exitAt]!.tool !== 'ExitPlanMode') exitAt++
  const before = all.slice(spent, exitAt)
  results.spent = Math.min(exitAt + 1, all.length)
  const made = (tool: string) => before.find((outcome) => outcome.tool === tool)
  const text = planText(step)
  const available = (tool: string) => talk.tools.has(tool) || (talk.deferred.has(tool) && talk.tools.has('ToolSearch'))
  const exit = all[exitAt]
  if (exit === undefined) {
    const entered = made('EnterPlanMode')
    if (!talk.planning && entered === undefined && available('EnterPlanMode')) {
      return calls('I will make a plan first.', { tool: 'EnterPlanMode', input: {} })
    }
    if (entered?.failed === true) return { ...told(entered, '', 'I could not make a plan'), stop: true }
    if (talk.planFile !== null && made('Write') === undefined && available('Write')) {
      return calls('I will write the plan down.', { tool: 'Write', input: { file_path: talk.planFile, content: text } })
    }
    if (available('ExitPlanMode')) return calls('Here is the plan.', { tool: 'ExitPlanMode', input: { plan: text } })
    if (before.length === 0) return { want: 'moves', moves: [say(text)] }
    return { want: 'nothing', note: 'I made a plan, and nobody could be asked to approve it.', stop: true }
  }
  if (exit.failed) return { ...told(exit, '', 'The plan was not approved'), stop: true }
  const notes = ['The plan was approved.']
  for (const inner of step.steps) {
    const next = inner.do === 'plan' ? plan(inner, results, talk) : spend(inner, results, talk, enough)
    if (next.want === 'calls' || next.want === 'error') return next
    if (next.want === 'nothing') notes.push(next.note)
    else notes.push(...next.moves.flatMap((move) => (move.do === 'text' ? [move.text] : [])))
  }
  return { want: 'nothing', note: notes.join('\n\n') }
}

function planText(step: Extract<Step, { do: 'plan' }>): string {
  const lines = step.steps.length === 0 ? ['look around', 'do the work', 'check the result'] : step.steps.map(inWords)
  return `# Plan: ${step.goal || 'the task'}\n\n${lines.map((line, index) => `${index + 1}. ${line}`).join('\n')}\n`
}

function todo(items: readonly string[], spent: readonly Outcome[], talk: Conversation): Next {
  const list = items.map((item) => `- [ ] ${item}`).join('\n')
  if (talk.tools.has('TodoWrite') || spent[0]?.tool === 'TodoWrite') {
    const todos = items.map((item, index) => ({
      content: item,
      status: index === 0 ? 'in_progress' : 'pending',
      activeForm: item,
    }))
    if (spent.length === 0) return calls('I will write a list.', { tool: 'TodoWrite', input: { todos } })
    return told(spent[0]!, `The list:\n\n${list}`, 'I could not write the list')
  }
  if (spent.length < items.length && (talk.tools.has('TaskCreate') || talk.deferred.has('TaskCreate'))) {
    const item = items[spent.length]!
    return calls(`Task ${spent.length + 1}.`, {
      tool: 'TaskCreate',
      input: { subject: item, description: item, activeForm: item },
    })
  }
  return { want: 'nothing', note: `The list:\n\n${list}` }
}

const calls = (words: string, ...list: readonly { readonly tool: string; readonly input: unknown }[]): Next => ({
  want: 'calls',
  words,
  calls: list,
})

function told(outcome: Outcome, good: string, bad: string): Extract<Next, { want: 'nothing' }> {
  return { want: 'nothing', note: outcome.failed ? `${bad}:${quote(outcome.text)}` : good }
}
function shown(outcome: Outcome, what: string): Next {
  const text = outcome.text.trim() === '' ? ' nothing' : quote(outcome.text)
  return { want: 'nothing', note: outcome.failed ? `${what} failed:${text}` : `${what} gave:${text}` }
}

const summary = (notes: readonly string[]) => notes.join('\n\n')
const quotedChars = 4000
function quote(text: string): string {
  const trimmed = text.replace(/<\/?tool_use_error>/g, '').trimEnd()
  const cut = trimmed.length > quotedChars ? `${trimmed.slice(0, quotedChars)}\n…` : trimmed
  // Longer than any fence in the text, so that it cannot end it.
  const fence = '`'.repeat(Math.max(3, ...[...cut.matchAll(/`+/g)].map(([ticks]) => ticks.length + 1)))
  return `\n\n${fence}\n${cut}\n${fence}`
}
/** The CLI wraps an answer as `"question"="answer"`. */
const answerIn = (text: string) => /"="([^"]*)"/.exec(text)?.[1] ?? text
/** The CLI puts a frame around a sub-agent's report, and indents it. */
function reportIn(text: string): string {
  const framed = /\[Subagent hand-back\][^\n]{0,500}\n([\s\S]*?)(?:\nagentId:|$)/.exec(text)?.[1]
  return (framed?.replaceAll(/^ {2}/gm, '') ?? text).replace(label, '').trim()
}
const inShell = (text: string) => `'${text.replaceAll("'", String.raw`'\''`)}'`

function inWords(step: Step): string {
  switch (step.do) {
    case 'create':
      return `create ${step.path}`
    case 'edit':
      return `edit ${step.path}`
    case 'run':
      return `run \`${step.command}\``
    case 'read':
      return `read ${step.path}`
    case 'search':
      return `search for “${step.pattern}”`
    case 'list':
      return 'list the files'
    case 'ask':
      return 'ask you something'
    case 'delegate':
      return 'start a sub-agent'
    case 'repeat':
      return `use ${step.times} tools`
    case 'plan':
      return 'make a plan'
    default:
      return step.do
  }
}

const sight = (images: readonly string[]) =>
  `I see ${images.length === 1 ? 'one image' : `${images.length} images`}: ${images.join('; ')}. A rehearsal does not look into them.`

const abilities = [
  'I am the rehearsal provider: a small fixed program in the place of a model, so that Anchorhold can be tried without a key. I can:',
  '',
  '- create a file: `create hello.txt saying hi`',
  '- edit one: `edit hello.txt replacing hi with hello`',
  '- run a command: `run ls -la`',
  '- read, search, list: `read hello.txt`, `search for hi`, `list files`',
  '- think, ask, plan: `think about lunch`, `ask me whether to use tabs or spaces`, `plan to create a.txt`',
  '- use several tools, or a sub-agent: `use 3 tools in a row`, `start a sub-agent to list files`',
  '- stream slowly, count, fail: `count slowly to 10`, `fail`',
  '',
  'Join them with “then”.',
].join('\n')

const titleOf = (text: string) =>
  text
    .replaceAll(/<\/?[\w-]+>/g, ' ')
    .trim()
    .split(/\s+/)
    .slice(0, 6)
    .join(' ')
    .slice(0, 60) || 'A rehearsal'

function notificationText(xml: string): string {
  return between(xml, 'result') ?? between(xml, 'summary') ?? xml.replaceAll(/<[^<>]*>/g, ' ').trim()
}
function between(text: string, tag: string): string | null {
  const from = text.indexOf(`<${tag}>`)
  const to = text.indexOf(`</${tag}>`, from)
  return from === -1 || to === -1 ? null : text.slice(from + tag.length + 2, to).trim()
}
