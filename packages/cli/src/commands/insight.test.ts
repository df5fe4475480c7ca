import type { SearchHit } from '@anchorhold/protocol/api/records'
import type { SessionId } from '@anchorhold/protocol/ids'
import { expect, test } from 'vitest'
import { toldOnce } from './insight.ts'

const [one, two] = ['ses_0000000000000001', 'ses_0000000000000002'] as SessionId[] as [SessionId, SessionId]
const hit = (seq: number, type: string, snippet: string, session = one): SearchHit => ({
  ...{ session, session_name: 'Mend the roof', seq, at: 1, type, snippet },
})
const seqs = (hits: readonly SearchHit[], sessions: Parameters<typeof toldOnce>[1] = []) =>
  toldOnce(hits, sessions).map(({ session, seq }) => `${session.at(-1)}#${seq}`)

test('toldOnce() makes a line end a space, and leaves other controls to be seen', () => {
  const [told] = toldOnce([hit(2, 'text', 'a\r\n\n«roof»\tof\u001b[31m\rslate\n')], [])
  expect(told?.excerpt).toBe('a «roof»\tof\u001b[31m\rslate ')
})

test('toldOnce() tells a prompt once, though its session is named after it', () => {
  const created = hit(1, 'session.created', 'Mend the «roof»')
  expect(seqs([created, hit(2, 'prompt.queued', 'Mend the «roof»')])).toEqual(['1#2'])
  expect(seqs([created, hit(2, 'prompt.queued', 'Mend the «roof»\nwith slate … ')])).toEqual(['1#2'])
  expect(
    seqs([
      hit(1, 'session.created', 'Mend the «roof» and the chim…'),
      hit(2, 'prompt.queued', 'Mend the «roof» and the chimney'),
    ]),
  ).toEqual(['1#2'])
  expect(seqs([created], [{ id: one, name: 'Mend the roof' }])).toEqual([])
  expect(seqs([created], [{ id: one, name: 'Another by now' }])).toEqual(['1#1'])
  expect(seqs([created])).toEqual(['1#1'])
})

test('toldOnce() tells the same text of another session, and other text of the same', () => {
  const said = [hit(3, 'text', 'the «roof»'), hit(4, 'tool.finished', 'the «roof»'), hit(5, 'text', 'the «roof» is new')]
  expect(seqs([...said, hit(3, 'text', 'the «roof»', two)])).toEqual(['1#3', '1#5', '2#3'])
})

test('toldOnce() names a session where nothing else does', () => {
  const name = (snippet: string, sessions: Parameters<typeof toldOnce>[1] = []) =>
    toldOnce([hit(2, 'prompt.queued', snippet)], sessions)[0]?.session_name
  expect(name('a «roof»')).toBe('Mend the roof')
  expect(name('Mend the «roof»')).toBeNull()
  expect(name('a «roof»', [{ id: one, name: 'Mend the roof' }])).toBeNull()
})
