import { firstOwner, type UserId } from '@anchorhold/protocol/ids'
import type { Role, ShareAccess } from '@anchorhold/protocol/people'
import { expect, test } from 'vitest'
import { type Actor, house, may, type Permission, permissions, seenBy, type SessionTies } from './actors.ts'

const me = 'usr_1111111111111111' as UserId
const another = 'usr_2222222222222222' as UserId
const actor = (kind: Actor['kind']): Actor => ({ kind, user: me, name: 'me', door: 'test' })
const ties = (owner: UserId, access?: ShareAccess): SessionTies => ({
  owner,
  shares: access === undefined ? [] : [{ user: me, access }],
})
const sessions = {
  none: undefined,
  own: ties(me),
  shared: ties(another, 'work'),
  shown: ties(another, 'view'),
  foreign: { owner: another, shares: [{ user: firstOwner, access: 'work' as const }] },
}

test('may() lets an owner and the house itself do everything, and nobody nothing', () => {
  for (const permission of permissions)
    for (const session of Object.values(sessions)) {
      expect(may(actor('owner'), permission, session)).toBe(true)
      expect(may(house, permission, session)).toBe(true)
      expect(may({ ...actor('nobody'), user: null }, permission, session)).toBe(false)
      expect(may(actor('nobody'), permission, session)).toBe(false)
      expect(may({ ...actor('owner'), user: null }, permission, session)).toBe(false)
    }
})

const all = ['none', 'own', 'shared', 'shown', 'foreign']
const table: Record<Exclude<Role, 'owner'>, Partial<Record<Permission, readonly string[]>>> = {
  member: {
    'house.read': all,
    panic: all,
    'policy.read': all,
    'people.read': all,
    'account.own': all,
    'tokens.own': all,
    'session.create': all,
    'session.create_wider': all,
    'session.read': ['own', 'shared', 'shown'],
    'session.work': ['own', 'shared'],
    'session.shell': ['own', 'shared'],
    'session.take_up': ['own', 'shared'],
    'session.answer': ['own', 'shared'],
    'session.widen': ['own', 'shared'],
    'session.share': ['own'],
    'session.purge': ['own'],
  },
  viewer: { 'house.read': all, 'account.own': all, 'policy.read': all, 'session.read': ['own', 'shared', 'shown'] },
  agent: {
    'house.read': all,
    'policy.read': all,
    'session.create': all,
    'session.read': ['own'],
    'session.work': ['own'],
  },
}

test.each(Object.entries(table))('may() lets a %s do what the table says, and nothing else', (kind, row) => {
  for (const permission of permissions)
    for (const [name, session] of Object.entries(sessions))
      expect([permission, name, may(actor(kind as Role), permission, session)]).toEqual([
        permission,
        name,
        row[permission]?.includes(name) ?? false,
      ])
})

test('seenBy() is everybody for owners alone', () => {
  expect(seenBy(actor('owner'))).toBeNull()
  expect(seenBy(house)).toBeNull()
  for (const kind of ['member', 'viewer', 'agent'] as const) expect(seenBy(actor(kind))).toBe(me)
  expect(() => seenBy({ ...actor('nobody'), user: null })).toThrow()
})
