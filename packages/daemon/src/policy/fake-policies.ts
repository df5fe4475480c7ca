import { noSettings, type PolicySettings } from '@anchorhold/core/policy/effective'
import type { Policies, PolicyState } from './policies.ts'

/** Policies that are no files. */
export function fakePolicies(
  house: Partial<PolicySettings> = {},
  named: Readonly<Record<string, Partial<PolicySettings>>> = {},
): Policies {
  const state = (file: string, name: string | null, settings: Partial<PolicySettings>): PolicyState => ({
    file,
    name,
    inForce: 'current',
    settings: { ...noSettings(file), ...settings },
    problems: [],
    text: '',
  })
  let rules = house.rules ?? []
  let version = 1
  const listeners = new Set<Parameters<Policies['onChange']>[0]>()
  const ofHouse = () => state('policy.yaml', null, { ...house, rules })
  const ofName = (name: string) => (Object.hasOwn(named, name) ? state(`policies/${name}.yaml`, name, named[name]!) : null)
  return {
    house: ofHouse,
    named: ofName,
    list: () => [ofHouse(), ...Object.keys(named).map((name) => ofName(name)!)],
    get version() {
      return version
    },
    look() {},
    reload() {},
    addRule(rule, author) {
      return () => {
        rules = [...rules, { rule, line: 1 }]
        version++
        for (const listener of listeners) listener([{ file: 'policy.yaml', sha256: null }], author)
      }
    },
    write() {},
    onChange(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    close() {},
  }
}
