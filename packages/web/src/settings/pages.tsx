import { BellRing, Boxes, CircleUserRound, KeyRound, LockKeyhole, ScrollText, Users, Wallet } from 'lucide-react'
import type { ReactNode } from 'react'

/** Every page of the settings, in the order in which the first of them lists them. Each is a route of its own in `router.tsx`. */
export const settingsPages = [
  {
    to: '/settings/account',
    label: 'Account, devices, tokens',
    about: 'How you and your programs log in',
    icon: <CircleUserRound size={20} />,
  },
  { to: '/settings/providers', label: 'Providers and keys', about: 'Where model calls go', icon: <KeyRound size={20} /> },
  {
    to: '/settings/secrets',
    label: 'Secrets',
    about: 'What the gate puts into calls',
    icon: <LockKeyhole size={20} />,
  },
  { to: '/settings/policy', label: 'Policy', about: 'What agents may do without asking', icon: <ScrollText size={20} /> },
  { to: '/settings/rungs', label: 'Walls', about: 'What this machine can isolate', icon: <Boxes size={20} /> },
  { to: '/settings/people', label: 'People', about: 'Who else has access, and what they may do', icon: <Users size={20} /> },
  { to: '/settings/budgets', label: 'Budgets', about: 'What the house and its groups may spend', icon: <Wallet size={20} /> },
  {
    to: '/settings/notifications',
    label: 'Notifications',
    about: 'Which devices are notified when you are needed',
    icon: <BellRing size={20} />,
  },
] as const satisfies readonly { to: `/settings/${string}`; label: string; about: string; icon: ReactNode }[]
