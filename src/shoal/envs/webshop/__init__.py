"""WebShop: a shop in which one looks for what somebody asks for, chooses its options, and buys it. ``shoal/WebShop-v0``.

::

    config ──▶ generated | official ──▶ products, goals ──▶ storing ──▶ files, mapped into every process
                                                                              │
    actions ──▶ shop (env) ──▶ pages (texts and what can be clicked) ◀── catalogue, index
                     └──▶ reward
"""

from __future__ import annotations

from shoal.envs.webshop.catalogue import Catalogue
from shoal.envs.webshop.config import WebShopConfig
from shoal.envs.webshop.records import Goal, Product
from shoal.envs.webshop.reward import Score, score_of
from shoal.envs.webshop.shop import WebShopEnv

__all__ = ["Catalogue", "Goal", "Product", "Score", "WebShopConfig", "WebShopEnv", "score_of"]
