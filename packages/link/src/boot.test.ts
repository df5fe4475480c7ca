import { existsSync } from 'node:fs'
import { expect, test } from 'vitest'
import { bootId } from './boot.ts'

test('bootId() names this boot, where the system does', () => {
  expect(bootId()).toBe(bootId())
  expect(bootId() !== null).toBe(existsSync('/proc/sys/kernel/random/boot_id'))
})
