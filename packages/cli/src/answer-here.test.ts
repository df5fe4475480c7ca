import type { RequestAction } from '@anchorhold/protocol/events'
import { newRequestId } from '@anchorhold/protocol/ids'
import { randomBytes } from 'node:crypto'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { answerHere } from './answer-here.ts'

const bash = (command: string): RequestAction => ({ kind: 'tool', tool: 'Bash', input: { command } })
const question: RequestAction = {
  kind: 'question',
  questions: [{ question: 'How many?', multi: false, options: [{ label: '3' }, { label: '5' }, { label: '1' }] }],
}

const patient = { timeout: 20_000 }

/** Somebody at a terminal, what they see, and what the daemon hears. */
function person() {
  const [input, output] = [new PassThrough(), new PassThrough()]
  const answers: unknown[] = []
  let seen = ''
  let interrupts = 0
  let away = 0
  output.setEncoding('utf8').on('data', (text: string) => (seen += text))
  const here = answerHere({
    terminal: { width: 80, error: (text) => (seen += text), foreign: (text) => text, line: (text = '') => (seen += `${text}\n`) },
    answer: async (id, body) => {
      if (away > 0 && away-- > 0) throw new TypeError('fetch failed')
      answers.push([id, body])
    },
    input,
    output,
    onInterrupt: () => interrupts++,
  })
  const ask = (action: RequestAction) => {
    const id = newRequestId(randomBytes)
    here.ask({ id, call: null, action })
    return id
  }
  return {
    here,
    ask,
    answers,
    type: (keys: string) => input.write(keys),
    sees: (what: string) => expect.poll(() => seen, patient).toContain(what),
    seen: () => seen,
    goAway: (times: number) => (away = times),
    interrupts: () => interrupts,
    [Symbol.dispose]: () => here[Symbol.dispose](),
  }
}

test('answerHere() takes one line for one request, and names it', async () => {
  using it = person()
  const [first, second] = [it.ask(bash('make one')), it.ask(bash('make two'))]
  await it.sees(`Allow ${first}?`)
  expect(it.seen()).not.toContain(`Allow ${second}?`)
  // More than one line at once: what comes behind the first was typed before the second was asked.
  it.type('y\ry\ry\r')
  await it.sees(`Allow ${second}?`)
  expect(it.seen()).toContain('make two')
  expect(it.answers).toEqual([[first, { decision: 'allow' }]])
  it.type('not today\r')
  await expect.poll(() => it.answers.length, patient).toBe(2)
  expect(it.answers[1]).toEqual([second, { decision: 'deny', reason: 'not today' }])
})

test('answerHere() takes an answer for the session or for later, and asks again for what it does not understand', async () => {
  using it = person()
  const [first, second] = [it.ask(bash('make one')), it.ask(bash('make two'))]
  await it.sees(`Allow ${first}?`)
  it.type('ok\r')
  await expect.poll(() => it.seen().split(`Allow ${first}?`).length, patient).toBe(3)
  expect(it.answers).toEqual([])
  it.type('s\r')
  await it.sees(`Allow ${second}?`)
  it.type('l\r')
  const both = [
    [first, { decision: 'allow', scope: 'session' }],
    [second, { decision: 'later' }],
  ]
  await expect.poll(() => it.answers, patient).toEqual(both)
})

test('answerHere() takes nothing for an answer that was typed before it asked', async () => {
  using it = person()
  it.type('y\r')
  const id = it.ask(bash('make one'))
  await it.sees(`Allow ${id}?`)
  it.type('no way\r')
  await expect.poll(() => it.answers, patient).toEqual([[id, { decision: 'deny', reason: 'no way' }]])
})

test('answerHere() asks once more where nobody has heard the answer', async () => {
  using it = person()
  it.goAway(1)
  const id = it.ask(bash('make one'))
  await it.sees(`Allow ${id}?`)
  it.type('y\r')
  await expect.poll(() => it.seen().split(`Allow ${id}?`).length, patient).toBe(3)
  it.type('y\r')
  await expect.poll(() => it.answers, patient).toEqual([[id, { decision: 'allow' }]])
})

test('answerHere() hears Ctrl-C while it asks', async () => {
  using it = person()
  const id = it.ask(bash('make'))
  await it.sees(`Allow ${id}?`)
  it.type('\u0003')
  await expect.poll(() => it.interrupts(), patient).toBe(1)
  expect(it.answers).toEqual([])
})

test('answerHere() goes on with the next when somebody else was quicker, and takes no half line along', async () => {
  using it = person()
  const [first, second, third] = [it.ask(bash('one')), it.ask(bash('two')), it.ask(question)]
  await it.sees(`Allow ${first}?`)
  it.type('y')
  it.here.settled(second)
  it.here.settled(first)
  await it.sees(third)
  it.type('3\r')
  await expect.poll(() => it.answers, patient).toEqual([[third, { decision: 'allow', answers: { 'How many?': '3' } }]])
})
