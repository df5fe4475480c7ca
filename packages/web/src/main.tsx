import './style.css'
import { QueryClientProvider } from '@tanstack/react-query'
import { RouterProvider } from '@tanstack/react-router'
import { StrictMode } from 'react'
import { createRoot } from 'react-dom/client'
import { heedLoginLinks, takeLoginSecret } from './daemon.ts'
import { house as makeHouse, HouseContext } from './live/house.ts'
import { rememberLists } from './live/remember.ts'
import { Gatekeeper } from './login/Gatekeeper.tsx'
import { makeRouter } from './router.tsx'
import { reloadForNewCode } from './new-code.ts'
import { applyScheme } from './shell/device.ts'
import { registerServiceWorker } from './service.ts'

applyScheme()
const house = makeHouse()
rememberLists(house)
reloadForNewCode(() => house.connection() === 'live')
const router = makeRouter(house)
createRoot(document.getElementById('app')!).render(
  <StrictMode>
    <HouseContext value={house}>
      <QueryClientProvider client={house.cache}>
        <Gatekeeper secret={takeLoginSecret()}>
          <RouterProvider router={router} />
        </Gatekeeper>
      </QueryClientProvider>
    </HouseContext>
  </StrictMode>,
)
heedLoginLinks()
registerServiceWorker()
