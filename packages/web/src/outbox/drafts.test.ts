import { expect, test } from 'vitest'
import { drafts } from './drafts.ts'

test('drafts() keeps what was written for each session, forgets what was sent, and tells whoever shows it', () => {
  const kept = new Map<string, string>()
  const made = drafts({
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, text) => void kept.set(key, text),
    removeItem: (key) => void kept.delete(key),
  })
  const seen: string[] = []
  const leave = made.subscribe(() => seen.push(made.read('ses_a')))
  made.write('ses_a', 'half')
  made.write('ses_b', 'other')
  made.write('ses_a', '')
  leave()
  made.write('ses_a', 'unheard')
  expect(seen).toEqual(['half', 'half', ''])
  expect([...kept.keys()]).toEqual(['anchorhold.draft.ses_b', 'anchorhold.draft.ses_a'])
})

test('drafts() goes on in memory on a device that is full, and forgets that with whoever wrote it', () => {
  const made = drafts({
    getItem: () => 'h',
    setItem() {
      throw new DOMException('full', 'QuotaExceededError')
    },
    removeItem: () => {},
  })
  made.write('ses_a', 'half')
  expect(made.read('ses_a')).toBe('half')
  made.letGo()
  expect(made.read('ses_a')).toBe('h')
})
