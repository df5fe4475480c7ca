import type { Session } from '@anchorhold/protocol/sessions'
import { expect, test } from 'vitest'
import { folderName, ordered, pieces } from './order.ts'

const row = (name: string, state: Session['state'], active_at: number, open_requests = 0) =>
  ({ name, state, active_at, open_requests }) as Session
const list = [row('old', 'ready', 1), row('asks', 'waiting', 2), row('busy', 'working', 3), row('asks too', 'paused', 4, 1)]

test('ordered() puts who needs somebody first, then whoever was active last', () => {
  const names = (show: Parameters<typeof ordered>[1]) => {
    const { needing, rest } = ordered(list, show)
    return [needing.map(({ name }) => name), rest.map(({ name }) => name)]
  }
  expect(names(undefined)).toEqual([
    ['asks too', 'asks'],
    ['busy', 'old'],
  ])
  expect(names('needs_you')).toEqual([['asks too', 'asks'], []])
  expect(names('working')).toEqual([[], ['busy', 'asks']])
})

test('pieces() marks what was found, and shows a stray mark as it is', () => {
  expect(pieces('a «b» c')).toEqual([
    { text: 'a ', found: false },
    { text: 'b', found: true },
    { text: ' c', found: false },
  ])
  expect(pieces('« alone')).toEqual([{ text: '« alone', found: false }])
})

test('folderName() is the last part of a path', () => {
  expect(folderName('/home/ann/src/app/', 'ses_x')).toBe('app')
  expect(folderName('/var/lib/anchorhold/sessions/ses_x/workspace', 'ses_x')).toBe('own folder')
})
