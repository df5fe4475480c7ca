import { expect, test } from 'vitest'
import { clearOwn, dropSeen, handTo } from './hands.ts'

function shelf(kept: Record<string, string>) {
  const all = new Map(Object.entries(kept))
  return {
    getItem: (name: string) => all.get(name) ?? null,
    setItem: (name: string, value: string) => void all.set(name, value),
    removeItem: (name: string) => void all.delete(name),
    key: (index: number) => [...all.keys()][index] ?? null,
    get length() {
      return all.size
    },
    all: () => Object.fromEntries(all),
  }
}

test('handTo() keeps what one person has written out of another one’s sight, and gives it back to them', () => {
  const device = shelf({ 'anchorhold.outbox': '[1]', 'anchorhold.draft.ses_1': 'half a thought' })
  handTo(device, 'ann')
  expect(device.getItem('anchorhold.outbox')).toBe('[1]')
  device.setItem('anchorhold.sessions', 'what Ann saw')
  handTo(device, 'bob')
  expect(device.getItem('anchorhold.outbox')).toBeNull()
  expect(device.getItem('anchorhold.draft.ses_1')).toBeNull()
  expect(JSON.stringify(device.all())).not.toContain('what Ann saw')
  device.setItem('anchorhold.outbox', '[2]')
  handTo(device, 'ann')
  expect(device.getItem('anchorhold.outbox')).toBe('[1]')
  expect(device.getItem('anchorhold.draft.ses_1')).toBe('half a thought')
})

test('handTo() gives back what was put aside also when whoever was in between has logged out', () => {
  const device = shelf({})
  handTo(device, 'bob')
  device.setItem('anchorhold.draft.ses_1', 'half a thought')
  handTo(device, 'ann')
  clearOwn(device)
  handTo(device, 'bob')
  expect(device.all()).toEqual({ 'anchorhold.draft.ses_1': 'half a thought', 'anchorhold.owner': 'bob' })
})

test('handTo() hands over a device that is full, and shows nobody what it could not put aside', () => {
  const device = shelf({ 'anchorhold.owner': 'ann', 'anchorhold.draft.ses_1': 'half a thought' })
  const setItem = (): never => {
    throw new DOMException('full', 'QuotaExceededError')
  }
  handTo({ ...device, length: 2, setItem }, 'bob')
  expect(device.getItem('anchorhold.draft.ses_1')).toBeNull()
})

test('dropSeen() forgets what was seen and keeps what was written; clearOwn() keeps only what is somebody else’s', () => {
  const device = shelf({ 'anchorhold.outbox': '[1]' })
  handTo(device, 'ann')
  handTo(device, 'bob')
  device.setItem('anchorhold.outbox', '[2]')
  device.setItem('anchorhold.sessions', 'seen')
  dropSeen(device)
  expect([device.getItem('anchorhold.sessions'), device.getItem('anchorhold.outbox')]).toEqual([null, '[2]'])
  clearOwn(device)
  expect(device.all()).toEqual({ 'anchorhold.of.ann.anchorhold.outbox': '[1]' })
})
