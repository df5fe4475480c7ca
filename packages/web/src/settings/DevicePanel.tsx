import { choose, type Scheme, useLetters, useScheme } from '../shell/device.ts'
import { useWide } from '../shell/use-wide.ts'
import { Panel } from './SettingsFrame.tsx'

const schemes = { system: 'Match the system', light: 'Light', dark: 'Dark' } as const satisfies Record<Scheme, string>

/** What is chosen for this device alone, and stays on it. */
export function DevicePanel() {
  const scheme = useScheme()
  const letters = useLetters()
  const wide = useWide()
  return (
    <Panel title="This device">
      <div role="group" aria-label="Colours" className="flex rounded-xl bg-raised p-1">
        {(Object.keys(schemes) as Scheme[]).map((one) => (
          <button
            key={one}
            type="button"
            aria-pressed={one === scheme}
            onClick={() => choose({ scheme: one })}
            className={`min-h-11 flex-1 rounded-lg px-2 text-sm ${one === scheme ? 'bg-surface font-medium shadow-card' : 'text-soft hover:text-ink'}`}
          >
            {schemes[one]}
          </button>
        ))}
      </div>
      {wide && (
        <label className="flex min-h-11 items-center gap-3 text-[0.9375rem]">
          <input
            type="checkbox"
            checked={letters}
            onChange={(event) => choose({ letters: event.target.checked })}
            className="size-5 accent-accent"
          />
          Single letters are shortcuts (n, i, u, s, j, k, / and ?)
        </label>
      )}
    </Panel>
  )
}
