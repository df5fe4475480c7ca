/** One thing that the rehearsal provider knows how to do. */
export type Step =
  | { readonly do: 'create'; readonly path: string; readonly content: string }
  | { readonly do: 'edit'; readonly path: string; readonly before: string; readonly after: string }
  | { readonly do: 'run'; readonly command: string }
  | { readonly do: 'read'; readonly path: string }
  | { readonly do: 'search'; readonly pattern: string; readonly path: string | null }
  | { readonly do: 'list'; readonly path: string | null }
  | { readonly do: 'think'; readonly about: string }
  | { readonly do: 'say'; readonly text: string; readonly paceMs: number }
  | { readonly do: 'wait'; readonly ms: number }
  | { readonly do: 'ask'; readonly question: string; readonly options: readonly string[] }
  | { readonly do: 'plan'; readonly goal: string; readonly steps: readonly Step[] }
  | { readonly do: 'fail'; readonly status: number }
  | { readonly do: 'delegate'; readonly task: string; readonly background: boolean }
  | { readonly do: 'repeat'; readonly times: number; readonly together: boolean }
  | { readonly do: 'todo'; readonly items: readonly string[] }
  | { readonly do: 'recall' }
  | { readonly do: 'guidance' }
  | { readonly do: 'help' }
  | { readonly do: 'unknown'; readonly text: string }

const verbs =
  'create|write|make|add|put|save|edit|replace|change|update|run|execute|read|show|open|print|search|grep|find|list|think|reason|ask|plan|fail|' +
  'stream|count|start|launch|use|say|answer|reply|wait|delete|remove'
/** For a text in which no two blanks follow each other: over runs of them it would take steps by the cube of their length. */
const separator = new RegExp(
  String.raw`\n|[,.]?\s(?:and\s)?then\b,?|[,.]?\sand\s(?=(?:${verbs})\b)|,\s(?=(?:${verbs})\b)|[.!]\s(?=(?:now|next|after|finally|${verbs})\b)`,
  'gi',
)
const politeness =
  /^(?:(?:\d+[.)]|[-*]|please|now|next|first|finally|also|after that|hi|hello|hey|ok|okay|could you|can you|would you|i want you to|you should|and|then)[,:]?\s+)+/i
/** What is between quotes or in code is one thing, whatever words are in it. */
const quotation = /```[\s\S]*?```|`[^`\n]*`|"[^"\n]*"|“[^“”\n]*”|(?<=^|\s)'[^'\n]*'(?=$|[\s.,;:])/g

/** A command that does not stand in quotes, which would say where it ends. */
const bareCommand = /^(?:run|execute|\$) (?!\uE000\d+\uE001\.?$)/i
/** After a command these are the shell's. */
const shellWord = /^(?:cat|echo|find|grep|ls)\b/

/** Of an instruction, without what it quotes, and of a question: anybody may write any text here, and the patterns below take more
 *  steps than it has characters. */
const wordsCharsMax = 16_000
const questionCharsMax = 2000
/** Of an instruction with all that it quotes. */
const textCharsMax = 1024 * 1024
/** Plans in plans. */
const plansMax = 3
/** In one instruction, plans with all that they plan. */
const stepsMax = 200
const toolsMax = 100
const countMax = 10_000
const waitMsMax = 600_000

/** The steps that an instruction in plain words asks for, in their order. */
export const parseInstruction = (text: string): Step[] => stepsIn(text.slice(0, textCharsMax), 0)

function stepsIn(text: string, depth: number): Step[] {
  if (depth > plansMax) return []
  const quotes: string[] = []
  const words = text
    .replaceAll(/[\uE000\uE001]/g, '')
    .replaceAll(quotation, (quote) => `\uE000${quotes.push(quote) - 1}\uE001`)
    .replaceAll(/\s+/g, (blanks) => (blanks.includes('\n') ? '\n' : ' '))
    .slice(0, wordsCharsMax)
    // Code on a line of its own belongs to the sentence that announces it.
    .replaceAll(/: ?\n(?=\uE000)/g, ': ')
  const unmask: Unmask = (part) => part?.replaceAll(/\uE000(\d+)\uE001/g, (_, index) => quotes[Number(index)] ?? '')
  const isStep = (clause: string) => !shellWord.test(clause) && known(parseClause(clause, unmask, depth))
  const clauses = words
    .split(separator)
    .flatMap((sentence) => clausesIn(sentence, isStep))
    .filter((clause) => !/^(?:steps?|do this|the following|do the following):?$/i.test(clause))
  return gather(clauses.slice(0, stepsMax).map((clause) => parseClause(clause, unmask, depth)))
}
/** At a semicolon the next step begins. What is none after a command is the rest of that command: `run id; uname -a`. */
function clausesIn(sentence: string, isStep: (clause: string) => boolean): string[] {
  const clauses: string[] = []
  for (const piece of sentence.split(';')) {
    const clause = piece.trim().replace(politeness, '').trim()
    if (clause === '') continue
    const before = clauses.at(-1)
    if (before !== undefined && bareCommand.test(before) && !isStep(clause)) clauses.push(`${clauses.pop()!};${piece.trimEnd()}`)
    else clauses.push(clause)
  }
  return clauses
}
type Unmask = (part: string | undefined) => string | undefined

/** Whoever plans, plans all that follows. */
function gather(steps: readonly Step[]): Step[] {
  const at = steps.findIndex((step) => step.do === 'plan')
  const plan = steps[at]
  if (plan?.do !== 'plan') return [...steps]
  const rest = steps.slice(at + 1)
  return [...steps.slice(0, at), { ...plan, steps: [...plan.steps, ...rest.filter(known)] }]
}
export const known = (step: Step): boolean => step.do !== 'unknown'

const word = String.raw`("[^"]+"|“[^”]+”|'[^']+'|` + '`[^`]+`' + String.raw`|\S+)`
const patterns: readonly (readonly [RegExp, (match: readonly (string | undefined)[], depth: number) => Step | null])[] = [
  [/^(?:fail|break|error)\b(?:.*?\b([45]\d\d)\b)?/i, ([, status]) => ({ do: 'fail', status: Number(status ?? 400) })],
  [/^(?:help|what can you do)\b/i, () => ({ do: 'help' })],
  [/^what (?:have|did) i (?:say|said|ask|asked|tell|told)\b/i, () => ({ do: 'recall' })],
  [
    /^(?:what are|show|repeat|recite) (?:me )?(?:your|the) (?:project )?(?:instructions|guidance|rules)\b/i,
    () => ({ do: 'guidance' }),
  ],
  [
    /^wait (?:for )?(\d+(?:\.\d+)?) ?(ms|s|seconds?|milliseconds?)\b/i,
    ([, n, unit]) => ({ do: 'wait', ms: bounded(Number(n) * (/^m/i.test(unit!) ? 1 : 1000), waitMsMax) }),
  ],
  [/^count (slowly )?(?:from 1 )?(?:up )?to (\d+)( slowly)?/i, ([, slow, to, slowly]) => count(Number(to), slow ?? slowly)],
  [/^stream\b.*?(\d{1,6}) words/i, ([, words]) => ({ do: 'say', text: prose(Number(words)), paceMs: 50 })],
  [/^stream\b/i, () => ({ do: 'say', text: prose(60), paceMs: 100 })],
  [
    /^(?:say|answer with|reply with|answer|reply|echo) (\d+) words/i,
    ([, words]) => ({ do: 'say', text: prose(Number(words)), paceMs: 0 }),
  ],
  [
    /^(?:say|answer with|reply with|answer|reply)[: ]\s*([\s\S]+)$/i,
    ([, text]) => ({ do: 'say', text: unquoted(text!), paceMs: 0 }),
  ],
  [
    /^(?:think|reason)\b(?: hard| carefully| deeply)?(?: about| on| of| through)? ?([\s\S]*)$/i,
    ([, about]) => ({ do: 'think', about: about! || 'this' }),
  ],
  [/^ask (?:me )?(?:a question)?[: ]?\s*([\s\S]*)$/i, ([, question]) => ask(question!)],
  [
    /^(?:make a plan|plan)\b(?: to| how to| for| out)?[: ]?\s*([\s\S]*)$/i,
    ([, goal], depth) => ({ do: 'plan', goal: unquoted(goal!), steps: stepsIn(goal!, depth + 1).filter(known) }),
  ],
  [
    /^(?:start|launch|use|spawn|run) (?:a |an |the )?(background )?(?:sub-?agent|agent|task)(?: in the (background))?(?: to| for| that| and have it)?[: ]?\s*([\s\S]*)$/i,
    ([, before, after, task]) => ({
      do: 'delegate',
      task: unquoted(task!) || 'say hello',
      background: (before ?? after) !== undefined,
    }),
  ],
  [
    /^(?:use|call|make) (\d+) tools?(?: calls?)?(?: in a row| one after the other)?( at once| in parallel| together)?/i,
    ([, n, together]) => ({ do: 'repeat', times: bounded(Number(n), toolsMax), together: together !== undefined }),
  ],
  [/^(?:use) several tools/i, () => ({ do: 'repeat', times: 3, together: false })],
  [
    /^(?:write|make|create|keep) (?:a |me a )?(?:to-?do|task) list(?: of| for| with|:)?\s*([\s\S]*)$/i,
    ([, items]) => todo(items!),
  ],
  [
    /^(?:run|execute)(?: the)?(?: shell| bash)?(?: command)?:? ([\s\S]+)$/i,
    ([, command]) => ({ do: 'run', command: code(command!) }),
  ],
  [/^\$ ([\s\S]+)$/, ([, command]) => ({ do: 'run', command: command! })],
  [
    /^(?:list|show)(?: me)?(?: all)?(?: the| of the)* (?:files|folder|directory)(?: (?:in|of|under) (\S+))?/i,
    ([, path]) => ({ do: 'list', path: place(path) }),
  ],
  [/^ls(?: (\S+))?$/i, ([, path]) => ({ do: 'list', path: path ?? null })],
  [
    new RegExp(`^(?:search|grep|look)(?: (?:the|all) \\w+)?(?: for)? ${word}(?: (?:in|under) (\\S+))?`, 'i'),
    ([, pattern, path]) => ({ do: 'search', pattern: unquoted(pattern!), path: place(path) }),
  ],
  [
    new RegExp(`^find ${word} (?:in|under) (\\S+)`, 'i'),
    ([, pattern, path]) => ({ do: 'search', pattern: unquoted(pattern!), path: place(path) }),
  ],
  [
    new RegExp(
      `^(?:edit|change|update|modify) (?:the )?(?:file )?${word}[,:]? (?:by |and )?(?:replacing|replace|changing|change) ([\\s\\S]+?) (?:with|by|to|into) ([\\s\\S]+)$`,
      'i',
    ),
    ([, path, before, after]) => edit(path!, before!, after!),
  ],
  [
    new RegExp(`^in ${word},? (?:replace|change) ([\\s\\S]+?) (?:with|by|to|into) ([\\s\\S]+)$`, 'i'),
    ([, path, before, after]) => edit(path!, before!, after!),
  ],
  [
    new RegExp(`^(?:replace|change) ([\\s\\S]+?) (?:with|by|to|into) ([\\s\\S]+?) in (?:the )?(?:file )?${word}$`, 'i'),
    ([, before, after, path]) => edit(path!, before!, after!),
  ],
  [
    new RegExp(
      `^(?:create|write|make|add) (?:a |an |the )?(?:new |empty )?(?:text )?file(?: called| named)? ${word}${saying()}$`,
      'i',
    ),
    ([, path, content]) => create(path!, content),
  ],
  [
    new RegExp(`^(?:create|write|make|add) (?:a |an |the )?(?:new )?${word}${saying()}$`, 'i'),
    ([, path, content]) => (content !== undefined || /[./]\w/.test(path!) ? create(path!, content) : null),
  ],
  [
    new RegExp(`^(?:write|put|save) ([\\s\\S]+?) (?:to|into|in) (?:the |a )?(?:file )?(?:called |named )?${word}$`, 'i'),
    ([, content, path]) => create(path!, content),
  ],
  [
    new RegExp(`^(?:delete|remove) (?:the )?(?:file )?${word}$`, 'i'),
    ([, path]) => ({ do: 'run', command: `rm -- '${unquoted(path!).replaceAll("'", String.raw`'\''`)}'` }),
  ],
  [
    new RegExp(`^(?:read|show|open|print|display|cat)(?: me)?(?: the)?(?: file| contents? of)* ${word}$`, 'i'),
    ([, path]) => ({ do: 'read', path: place(path)! }),
  ],
]

function parseClause(clause: string, unmask: Unmask, depth: number): Step {
  for (const [pattern, build] of patterns) {
    const match = pattern.exec(clause)
    const step = match === null ? null : build([...match].map(unmask), depth)
    if (step !== null) return step
  }
  return { do: 'unknown', text: unmask(clause)! }
}

function saying(): string {
  return String.raw`(?:,? (?:saying|containing|that says|which says|that contains|with(?: the)?(?: text| contents?| words?| line)?)[: ]\s*([\s\S]+))?`
}

function create(path: string, content: string | undefined): Step {
  const text = content === undefined ? 'Made by the rehearsal provider.' : unquoted(content)
  return { do: 'create', path: place(path)!, content: text.endsWith('\n') ? text : `${text}\n` }
}

function edit(path: string, before: string, after: string): Step {
  return { do: 'edit', path: place(path)!, before: unquoted(before), after: unquoted(after) }
}

function count(to: number, slowly: string | undefined): Step {
  const numbers = Array.from({ length: bounded(to, countMax) }, (_, index) => index + 1)
  return { do: 'say', text: numbers.join(' '), paceMs: slowly === undefined ? 0 : 250 }
}

/** `whether to use tabs or spaces` has two answers; what has none to choose from is a yes or a no. */
function ask(text: string): Step {
  const asked = text
    .trim()
    .slice(0, questionCharsMax)
    .replace(/[?.!]+$/, '')
  const choice =
    /^(?:which|what|whether|if)?\b.*?(?:\bto (?:use|take|have|choose|pick)|:|\bof|\bprefer|\bwant|,)? ?(\S+(?: \S+)?) or (\S+(?: \S+)?)$/i.exec(
      asked,
    )
  const options =
    choice === null ? ['Yes', 'No'] : [choice[1]!, choice[2]!].map((option) => unquoted(option).replace(/^(?:use|to|take) /i, ''))
  const words = asked.replace(/^(?:whether|if) (?:to|i should)\b/i, 'Shall I').replace(/^(?:whether|if) /i, '')
  const question = words === '' ? 'Shall I go on?' : `${words[0]!.toUpperCase()}${words.slice(1)}?`
  return { do: 'ask', question, options }
}

function todo(text: string): Step {
  const items = text
    .split(/,| and |\n/)
    .map((item) => unquoted(item.trim()))
    .filter((item) => item !== '')
  return {
    do: 'todo',
    items: items.length > 1 ? items.slice(0, 20) : ['Look around', items[0] ?? 'Do the work', 'Check the result'],
  }
}

/** A path, without the quotes or the full stop that a sentence puts around it. */
const place = (path: string | undefined): string | null =>
  path === undefined ? null : unquoted(path.replace(/[,:;]$/, '').replace(/(?<=\w)\.$/, ''))
/** A command: what is in the first piece of code, or everything. */
function code(text: string): string {
  const inside = /^```\w*\n([\s\S]*?)\n?```|^`([^`]+)`/.exec(text.trim())
  return inside?.[1] ?? inside?.[2] ?? text.trim().replace(/(?<=\w)\.$/, '')
}
function unquoted(text: string): string {
  const trimmed = text.trim()
  const fence = /^```\w*\n([\s\S]*?)```/.exec(trimmed)
  if (fence !== null) return fence[1]!
  const quote = /^(?:"([\s\S]*)"|“([\s\S]*)”|'([\s\S]*)'|`([\s\S]*)`)[.]?$/.exec(trimmed)
  return quote?.slice(1).find((inner) => inner !== undefined) ?? trimmed
}
const bounded = (n: number, max: number) => Math.max(0, Math.min(n, max))

function prose(words: number): string {
  const lexicon =
    'the agent works in its cell and every word of this answer comes from a rehearsal rather than from a model so that nothing is spent'.split(
      ' ',
    )
  return Array.from({ length: bounded(words, countMax) }, (_, index) => lexicon[index % lexicon.length]).join(' ')
}
