import { useSyncExternalStore } from 'react'
import { z } from 'zod'

/** What somebody has chosen for this device alone. */
const Choices = z.object({
  scheme: z.enum(['system', 'light', 'dark']).catch('system'),
  /** Whether single letters do something: who speaks to a device, or types without seeing, may not want that. */
  letters: z.boolean().catch(true),
})
type Choices = z.infer<typeof Choices>
export type Scheme = Choices['scheme']

const place = 'anchorhold.device'
const changed = 'anchorhold:device'

function read(): Choices {
  try {
    return Choices.parse(JSON.parse(localStorage.getItem(place) ?? '{}'))
  } catch {
    return Choices.parse({})
  }
}

export function choose(choice: Partial<Choices>): void {
  localStorage.setItem(place, JSON.stringify({ ...read(), ...choice }))
  applyScheme()
  dispatchEvent(new Event(changed))
}

/** Every colour of the page follows the scheme of its root, which style.css sets by this attribute: a style set from here would move
 *  the browser's own controls alone, since `light-dark()` is built into what older browsers know. */
export function applyScheme(): void {
  document.documentElement.dataset['scheme'] = read().scheme
}

export const lettersAreKeys = (): boolean => read().letters

/** Tells when the colours change: by choice, or because the system's did. */
export function onScheme(listener: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  system.addEventListener('change', listener)
  addEventListener(changed, listener)
  return () => {
    system.removeEventListener('change', listener)
    removeEventListener(changed, listener)
  }
}

const subscribe = (listener: () => void) => {
  addEventListener(changed, listener)
  addEventListener('storage', listener)
  return () => {
    removeEventListener(changed, listener)
    removeEventListener('storage', listener)
  }
}
export const useScheme = (): Scheme => useSyncExternalStore(subscribe, () => read().scheme)
export const useLetters = (): boolean => useSyncExternalStore(subscribe, lettersAreKeys)
