import { counted } from '@anchorhold/core/counted'
import { Failure } from '@anchorhold/protocol/failures'
import { ruleWords } from '@anchorhold/core/policy/rule-words'
import { settledWords } from '@anchorhold/core/request-told'
import { chosen } from '@anchorhold/core/request-words'
import type { PolicyBacktest } from '@anchorhold/protocol/api/policy'
import type { RuleLook } from '@anchorhold/protocol/api/requests'
import type { Client } from '@anchorhold/protocol/client'
import { RequestId } from '@anchorhold/protocol/ids'
import type { Request } from '@anchorhold/protocol/requests'
import { type Command, Option } from 'commander'
import { createInterface } from 'node:readline/promises'
import type { Context } from '../context.ts'
import { requestLines } from '../request-words.ts'
import { ago, type Terminal } from '../terminal.ts'

const which = 'its id, the beginning of its id, or last for the newest that is open'

export function requests(program: Command, context: Context): void {
  program
    .command('requests')
    .summary('what waits for your answer')
    .option('-a, --all', 'the settled ones too')
    .option('--json', 'one request a line')
    .action(async (options: { all?: true; json?: true }) => {
      const { api } = await context.daemon()
      const { requests: list } = await api.listRequests({ query: options.all ? { all: 'true' } : {} })
      const { terminal } = context
      if (options.json) return list.forEach((request) => terminal.line(JSON.stringify(request)))
      if (list.length === 0) return terminal.line('Nothing is waiting for you.')
      for (const request of list) showRequest(terminal, request)
    })
  program
    .command('allow')
    .summary('allow a request, or answer its question')
    .argument('<request>', which)
    .option('--answer <text...>', "the answer to each question, in order: an option's number or label, or your own words")
    .addOption(new Option('--session', 'for as long as the session lives').conflicts('rule'))
    .option('--rule', 'as a rule of the policy: for every session, from now on; shows it and what it would have done first')
    .option('-y, --yes', 'make the rule without being asked')
    .action(async (name: string, options: { answer?: string[]; session?: true; rule?: true; yes?: true }) => {
      const { api } = await context.daemon()
      const id = await idOf(api, name)
      const request = await api.getRequest({ params: { id } })
      if (options.answer !== undefined && request.action.kind !== 'question')
        throw new Failure('bad_request', `"${id}" is no question: it cannot be answered, only allowed or denied`, {
          hint: 'anchorhold requests shows what waits',
        })
      const scope = options.rule ? ('rule' as const) : options.session ? ('session' as const) : undefined
      const answers: Record<string, string> = {}
      if (request.action.kind === 'question') {
        const given = options.answer ?? []
        if (given.length !== request.action.questions.length) {
          throw new Failure(
            'bad_request',
            `The request has ${counted(request.action.questions.length, 'question')}, and ${given.length === 0 ? 'no answer' : counted(given.length, 'answer')} came`,
            { hint: 'Give --answer once for each' },
          )
        }
        for (const [index, { question, options: choices }] of request.action.questions.entries()) {
          const word = given[index]!
          const answer = chosen(choices, word)
          if (/^\d+$/.test(answer) && choices.length > 0 && !choices.some(({ label }) => label === answer))
            throw new Failure('bad_request', `"${question}" has ${choices.length} options, and no number ${answer}`)
          answers[question] = answer
        }
      }
      // Of one that is settled nothing is asked: the daemon says how it was.
      const asksForRule = options.rule === true && request.answer === null
      if (asksForRule && !(await wantsRule(context, await api.requestRule({ params: { id } }), options.yes === true)))
        return context.terminal.line(`${id}: still open`)
      const settled = await api.answerRequest({
        params: { id },
        body: {
          decision: 'allow',
          ...(scope === undefined ? {} : { scope }),
          ...(request.action.kind === 'question' ? { answers } : {}),
        },
      })
      const { terminal } = context
      terminal.line(`${id}: allowed${scopeWords[scope ?? 'once']}`)
      if (scope !== undefined && settled.rule !== null) terminal.line(`  ${terminal.foreign(ruleWords(settled.rule))}`)
    })
  program
    .command('deny')
    .summary('deny a request')
    .argument('<request>', which)
    .option('--reason <text>', 'the agent reads it')
    .action(async (name: string, options: { reason?: string }) => {
      const { api } = await context.daemon()
      const id = await idOf(api, name)
      await api.answerRequest({
        params: { id },
        body: { decision: 'deny', ...(options.reason === undefined ? {} : { reason: options.reason }) },
      })
      context.terminal.line(`${id}: denied`)
    })
  program
    .command('later')
    .summary('not now: the request stays open, and its session waits without a cell')
    .argument('<request>', which)
    .action(async (name: string) => {
      const { api } = await context.daemon()
      const id = await idOf(api, name)
      await api.answerRequest({ params: { id }, body: { decision: 'later' } })
      context.terminal.line(`${id}: waits for you`)
    })
}

async function idOf(api: Client, name: string): Promise<RequestId> {
  const whole = RequestId.safeParse(name)
  if (whole.success) return whole.data
  const { requests: open } = await api.listRequests({ query: {} })
  const wanted = name.replace(/^req_/, '')
  const newest = open.toSorted((a, b) => b.opened_at - a.opened_at).slice(0, 1)
  const found = name === 'last' ? newest : wanted === '' ? [] : open.filter(({ id }) => id.slice(4).startsWith(wanted))
  if (found.length === 1) return found[0]!.id
  throw new Failure(
    'not_found',
    found.length === 0 ? `No request "${name}" is open` : `"${name}" matches ${found.length} requests`,
    { hint: 'anchorhold requests shows them' },
  )
}

/** Shows a rule and what it would have done, and has it confirmed. */
async function wantsRule({ terminal }: Context, { rule, words, past }: RuleLook, isSure: boolean): Promise<boolean> {
  // Why there is none is for the daemon to say.
  if (rule === null || past === null) return true
  terminal.line(`The rule: ${terminal.foreign(words ?? '')}`)
  showLook(terminal, past)
  if (isSure) return true
  if (!process.stdin.isTTY || !terminal.interactive)
    throw new Failure('bad_request', 'Cannot make the rule: nobody is here to confirm it', { hint: 'Give --yes' })
  const reader = createInterface({ input: process.stdin, output: process.stdout })
  try {
    return /^y(es)?$/i.test((await reader.question('Make this rule, for every session from now on? [y/N] ')).trim())
  } finally {
    reader.close()
  }
}

function showLook(terminal: Terminal, { since, actions, complete, allowed, skipped, sessions }: PolicyBacktest): void {
  const of = `${complete ? '' : 'the newest '}${counted(actions, 'action')} since ${new Date(since).toISOString().slice(0, 10)}`
  terminal.line(
    `Of ${of} it would have allowed ${allowed} without asking${skipped === 0 ? '' : `; ${skipped} were not kept whole`}.`,
  )
  for (const { session, name, examples, allowed: count } of sessions) {
    terminal.line(`  ${session}  ${count}  ${terminal.foreign(name)}`)
    for (const { at, action } of examples)
      terminal.line(`    ${terminal.style('dim', `${ago(at)}  ${terminal.foreign(action)}`)}`)
  }
}

const scopeWords = { once: '', session: ' for this session', rule: ' from now on, by this rule:' } as const

function showRequest(terminal: Terminal, request: Request): void {
  const { foreign, style } = terminal
  const { answer, answered_by, answered_from, digest, expires_at, rule, rule_refused, why } = request
  const dim = (label: string, words: string) => terminal.line(`    ${style('dim', `${label}: ${foreign(words)}`)}`)
  const open = request.deferred ? 'open (not now)' : 'open'
  const state = answer === null ? style('yellow', open) : style('dim', foreign(settledWords(answer, answered_by ?? 'somebody')))
  const secrets = request.secrets_inside.length === 0 ? '' : style('red', ' +secrets')
  terminal.line(
    `${request.id}  ${state}  ${ago(request.opened_at)}  ${request.session}  ${foreign(request.session_name)}${secrets}`,
  )
  for (const line of requestLines(request.action, terminal.interactive ? terminal.width : null)) terminal.line(`    ${line}`)
  if (why !== null) dim('why', why)
  if (rule !== null) dim('rule that would settle it', ruleWords(rule))
  else if (rule_refused !== null) dim('no rule would settle it', rule_refused)
  if (digest !== null) dim('digest', digest.slice(0, digestShown))
  if (answer === null && expires_at !== null) dim('can be answered until', new Date(expires_at).toISOString())
  const isAnswered = answer?.decision === 'allow' || answer?.decision === 'deny'
  if (isAnswered && answered_by !== null) dim('answered', `by ${answered_by} (door: ${answered_from ?? 'unknown'})`)
}
const digestShown = 12
