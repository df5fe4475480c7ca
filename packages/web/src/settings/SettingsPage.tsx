import { Link } from '@tanstack/react-router'
import { ChevronRight, FileClock } from 'lucide-react'
import type { ReactNode } from 'react'
import { PageHeader } from '../shell/PageHeader.tsx'
import { DevicePanel } from './DevicePanel.tsx'
import { settingsPages } from './pages.tsx'

/** Where every page of the settings is found. */
export function SettingsPage() {
  return (
    <>
      <PageHeader title="Settings" />
      <div className="scroll flex-1 px-4 pb-10 lg:px-8">
        <div className="mx-auto grid w-full max-w-2xl grid-cols-1 gap-4">
          <nav aria-label="Settings" className="grid grid-cols-1 gap-4">
            <ul className="card divide-y divide-line overflow-hidden">
              {settingsPages.map(({ to, label, about, icon }) => (
                <li key={to}>
                  <Link to={to} className={entry}>
                    <Entry label={label} about={about} icon={icon} />
                  </Link>
                </li>
              ))}
            </ul>
            <Link to="/audit" className={`card ${entry}`}>
              <Entry label="Audit" about="What left, what was asked, what it cost" icon={<FileClock size={20} />} />
            </Link>
          </nav>
          <DevicePanel />
        </div>
      </div>
    </>
  )
}

const entry = 'flex min-h-16 items-center gap-4 px-5 py-3 transition-colors hover:bg-raised'

function Entry({ label, about, icon }: { readonly label: string; readonly about: string; readonly icon: ReactNode }) {
  return (
    <>
      <span aria-hidden className="text-soft">
        {icon}
      </span>
      <span className="min-w-0 flex-1">
        <span className="block font-medium">{label}</span>
        <span className="block text-sm text-faint">{about}</span>
      </span>
      <ChevronRight size={18} aria-hidden className="shrink-0 text-faint" />
    </>
  )
}
