"""Writing what ``lscpu`` prints of given values, in several languages and layouts."""

import json
from collections.abc import Mapping, Sequence

from hostdoctor.facts import Fact

# Labels as translated, in the order of ENGLISH; the last is the word for full virtualization.
ENGLISH = (
    *("Architecture:", "CPU op-mode(s):", "Byte Order:", "CPU(s):", "On-line CPU(s) list:", "Thread(s) per core:"),
    *("Core(s) per socket:", "Socket(s):", "NUMA node(s):", "Vendor ID:", "CPU family:", "Model:", "Model name:"),
    *("Stepping:", "Hypervisor vendor:", "Virtualization type:", "NUMA node%d CPU(s):", "full"),
)
LANGUAGES: Mapping[str, Sequence[str]] = {
    "English": ENGLISH,
    "German": (
        *("Architektur:", "CPU Operationsmodus:", "Byte-Reihenfolge:", "CPU(s):", "Liste der Online-CPU(s):"),
        *("Thread(s) pro Kern:", "Kern(e) pro Sockel:", "Sockel:", "NUMA-Knoten:", "Anbieterkennung:"),
        *("Prozessorfamilie:", "Modell:", "Modellname:", "Stepping:", "Hypervisor-Anbieter:", "Virtualisierungstyp:"),
        *("NUMA-Knoten%d CPU(s):", "voll"),
    ),
    "French": (
        *("Architecture :", "Mode(s) opératoire(s) des processeurs :", "Boutisme :", "Processeur(s) :"),
        *("Liste de processeur(s) en ligne :", "Thread(s) par cœur :", "Cœur(s) par socket :", "Socket(s) :"),
        *("Nœud(s) NUMA :", "Identifiant constructeur :", "Famille de processeur :", "Modèle :", "Nom de modèle :"),
        *("Révision :", "Constructeur d'hyperviseur :", "Type de virtualisation :"),
        *("Nœud NUMA %d de processeur(s) :", "complet"),
    ),
    "Spanish": (
        *("Arquitectura:", "modo(s) de operación de las CPUs:", "Orden de los bytes:", "CPU(s):"),
        *("Lista de la(s) CPU(s) en línea:", "Hilo(s) de procesamiento por núcleo:", "Núcleo(s) por «socket»:"),
        *("«Socket(s)»", "Modo(s) NUMA:", "ID de fabricante:", "Familia de CPU:", "Modelo:", "Nombre del modelo:"),
        *("Revisión:", "Fabricante del hipervisor:", "Tipo de virtualización:", "CPU(s) del nodo NUMA %d:", "lleno"),
    ),
    "Portuguese": (
        *("Arquitetura:", "Modo(s) operacional da CPU:", "Ordem dos bytes:", "CPU(s):", "Lista de CPU(s) on-line:"),
        *("Thread(s) per núcleo", "Núcleo(s) por soquete:", "Soquete(s):", "Nó(s) de NUMA:", "ID de fornecedor:"),
        *("Família da CPU:", "Modelo:", "Nome do modelo:", "Step:", "Fabricante do hipervisor:"),
        *("Tipo de virtualização:", "CPU(s) de nó%d NUMA:", "completo"),
    ),
    "Polish": (
        *("Architektura:", "Tryb(y) pracy CPU:", "Kolejność bajtów:", "CPU:", "Lista aktywnych CPU:"),
        *("Wątków na rdzeń:", "Rdzeni na gniazdo:", "Gniazd:", "Węzłów NUMA:", "ID producenta:", "Rodzina CPU:"),
        *("Model:", "Nazwa modelu:", "Wersja:", "Producent hipernadzorcy:", "Typ wirtualizacji:"),
        *("Procesory węzła NUMA %d:", "pełna"),
    ),
    "Ukrainian": (
        *("Архітектура:", "Режими ЦП:", "Порядок байтів:", "Процесори:", "Список робочих ЦП:", "Потоків на ядро:"),
        *("Ядер на сокет:", "Сокети:", "Вузли NUMA:", "Ід. виробника:", "Сімейство ЦП:", "Модель:", "Назва моделі:"),
        *("Модифікація:", "Виробник гіпервізора:", "Тип віртуалізації:", "Процесори вузла%d NUMA:", "повна"),
    ),
    "Russian": (
        *("Архитектура:", "CPU op-mode(s):", "Порядок байт:", "CPU(s):", "On-line CPU(s) list:", "Потоков на ядро:"),
        *("Ядер на сокет:", "Сокетов:", "NUMA node(s):", "ID производителя:", "Семейство ЦПУ:", "Модель:"),
        *("Имя модели:", "Степпинг:", "Разработчик гипервизора:", "Тип виртуализации:", "NUMA node%d CPU(s):"),
        "полный",
    ),
    "Arabic": (
        *("البنية:", "أوضاع تشغيل المعالج:", "ترتيب البايت:", "وحدات المعالجة:", "قائمة وحدات المعالجة المتصلة:"),
        *("خيوط لكل نواة:", "نوى لكل مقبس:", "مقابس:", "عقدة (عقد) NUMA:", "معرف البائع:", "عائلة وحدة المعالجة:"),
        *("الطراز:", "اسم الطراز:", "المراجعة:", "بائع فرط المراقب:", "نوع المحاكاة الافتراضية:"),
        *("وحدة (وحدات) المعالجة لعقدة NUMA %d:", "كامل"),
    ),
    "Japanese": (
        *("アーキテクチャ:", "CPU 操作モード:", "バイト順序:", "CPU:", "オンラインになっている CPU のリスト:"),
        *("コアあたりのスレッド数:", "ソケットあたりのコア数:", "ソケット数:", "NUMA ノード数:", "ベンダー ID:"),
        *("CPU ファミリー:", "モデル:", "モデル名:", "ステッピング:", "ハイパーバイザのベンダー:", "仮想化タイプ:"),
        *("NUMA ノード %d CPU:", "完全仮想化"),
    ),
    "Chinese": (
        *("架构：", "CPU 运行模式：", "字节序：", "CPU:", "在线 CPU 列表：", "每个核的线程数：", "每个座的核数："),
        *("座：", "NUMA 节点：", "厂商 ID：", "CPU 系列：", "型号：", "型号名称：", "步进：", "超管理器厂商："),
        *("虚拟化类型：", "NUMA 节点%d CPU：", "完全"),
    ),
    "Korean": (
        *("아키텍처:", "CPU 동작 모드:", "바이트 순서:", "CPU:", "온라인 CPU 목록:", "코어 당 스레드:"),
        *("소켓 당 코어 수:", "소켓:", "NUMA 노드:", "제조사 ID:", "CPU 제품군:", "모델:", "모델 이름:", "스테핑:"),
        *("하이퍼바이저 제조:", "가상화 형식:", "NUMA 노드%d CPU:", "full"),
    ),
}


class Machine(Fact, frozen=True, kw_only=True):
    """What lscpu would find. ``family`` is None on Arm; ``hypervisor`` None on bare metal."""

    model_name: str = "Intel(R) Xeon(R) Platinum 8358 CPU @ 2.60GHz"
    vendor: str = "GenuineIntel"
    family: int | None = 6
    model: int = 106
    stepping: str = "6"
    threads: int = 2
    cores: int = 32
    sockets: int = 2
    online: str = "0-127"
    nodes: tuple[tuple[int, str], ...] = ((0, "0-31,64-95"), (1, "32-63,96-127"))
    hypervisor: str | None = None


def pairs(machine: Machine, language: str, *, is_new: bool) -> list[tuple[str, str]]:
    """Return the labels and values in the order of the version: since 2.37 the NUMA nodes stand together."""
    word = dict(zip(ENGLISH, LANGUAGES[language], strict=True))
    count = machine.threads * machine.cores * machine.sockets
    topology = [
        (word["Thread(s) per core:"], str(machine.threads)),
        (word["Core(s) per socket:"], str(machine.cores)),
        (word["Socket(s):"], str(machine.sockets)),
    ]
    nodes = [(word["NUMA node%d CPU(s):"] % node, cpus) for node, cpus in machine.nodes]
    node_count = [(word["NUMA node(s):"], str(len(machine.nodes)))]
    name = [(word["Model name:"], machine.model_name)]
    family = [] if machine.family is None else [(word["CPU family:"], str(machine.family))]
    model = [*family, (word["Model:"], str(machine.model))]
    vendor = [(word["Vendor ID:"], machine.vendor)]
    hypervisor = [
        (word["Hypervisor vendor:"], machine.hypervisor or ""),
        (word["Virtualization type:"], word["full"]),
    ]
    return [
        (word["Architecture:"], "x86_64"),
        (word["CPU op-mode(s):"], "32-bit, 64-bit"),
        (word["Byte Order:"], "Little Endian"),
        (word["CPU(s):"], str(count)),
        (word["On-line CPU(s) list:"], machine.online),
        *([*vendor, *name, *model, *topology] if is_new else [*topology, *node_count, *vendor, *model, *name]),
        (word["Stepping:"], machine.stepping),
        ("CPU MHz:", "3500,0000"),
        ("BogoMIPS:", "5200.00"),
        ("Virtualization:", "VT-x"),
        *(hypervisor if machine.hypervisor else ()),
        ("L1d:", "3 MiB (64 instances)"),
        *([*node_count, *nodes] if is_new else nodes),
        ("Vulnerability Mds:", "KVM: Mitigation: none"),
    ]


def render_lscpu(machine: Machine, language: str = "English", *, is_new: bool = True, width: int = 40) -> str:
    """Return the plain output; a label as long as ``width`` touches its value."""
    lines = (f"{label:{width}}{value}".rstrip() for label, value in pairs(machine, language, is_new=is_new))
    return "\n".join([*lines, ""])


def render_grouped(machine: Machine, columns: int = 0) -> str:
    """Return the output that a terminal gets since 2.38: under headings, wrapped at ``columns``."""
    lines = []
    for label, value in pairs(machine, "English", is_new=True):
        heading = {
            "Virtualization:": "Virtualization features:",
            "NUMA node(s):": "NUMA:",
            "L1d:": "Caches (sum of all):",
        }
        if label in heading:
            lines.append(heading[label])
        indent = "" if label in {"Architecture:", "CPU(s):", "Vendor ID:"} else "  "
        room = columns - 30 if columns else len(value) or 1
        pieces = [value[i : i + room] for i in range(0, len(value), room)] or [""]
        lines.append(f"{indent + label:30}{pieces[0]}".rstrip())
        lines += [" " * 30 + piece for piece in pieces[1:]]
    return "\n".join([*lines, ""])


def render_json(machine: Machine, *, is_nested: bool) -> str:
    """Return ``lscpu -J``, flat as up to 2.36 or nested."""
    fields = [{"field": label, "data": value} for label, value in pairs(machine, "English", is_new=is_nested)]
    if not is_nested:
        return json.dumps({"lscpu": fields}, indent=3)
    root, inner = fields[:4], fields[4:]
    return json.dumps({"lscpu": [*root, {"field": "NUMA:", "data": None, "children": inner}]}, indent=3)
